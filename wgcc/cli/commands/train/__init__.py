"""`wgcc train`: trains a bundle on a file of data, with progress, checkpoints and resuming."""

from __future__ import annotations

import shlex
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli import shell_completion
from wgcc.cli.commands.train.language_models import (
    default_steps,
    learned_rows,
    learning_bundle,
    lora_options,
)
from wgcc.cli.commands.train.length import length_options, patience_callbacks, with_steps
from wgcc.cli.commands.train.receipts import check_receipt, receipt_callbacks, receipt_options
from wgcc.cli.commands.train.worker_options import (
    Range,
    refuse_for_several,
    refuse_without_effect,
    worker_options,
)
from wgcc.cli.data import DataFile, DataOptions, data_options, say_reading
from wgcc.cli.failures import INTERRUPTED, failures, warnings_printed
from wgcc.cli.options import SEED, captured_option, device_option, fast_option, json_option
from wgcc.cli.printing import is_muted, say, show_json

if TYPE_CHECKING:
    from wgcc.from_gguf.lora import LoraOptions
    from wgcc_runtime.data.preparation import Data
    from wgcc_runtime.history import History
    from wgcc_runtime.model import Model
    from wgcc_runtime.plan import Plan
    from wgcc_runtime.values import StartValues


EXISTING, COUNT = click.Path(exists=True, path_type=Path), click.IntRange(min=1)


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """The command line of one training."""

    bundle: Path
    data: Path | None
    reading: DataOptions
    entry: str
    steps: int
    every: int
    out: Path
    eval: Path | None
    weights: Path | None
    log: str | None
    batch: int | None
    seed: int | None
    device: str | None
    resume: bool
    held_out: float | None
    epochs: int | None = None
    patience: int | None = None
    captured: Path | None = None
    # The folder of the language model that learns, with a bundle made for that.
    language_model: Path | None = None
    fast: bool = False
    receipt: Path | None = None
    receipt_every: int | None = None
    workers: Range | None = None
    ray: str | None = None
    sync_every: int | None = None
    outer_lr: float | None = None
    outer_momentum: float | None = None
    sync_slack: float | None = None
    cores: float | None = None
    gpus: float | None = None

    def resume_command(self) -> str:
        folder = ["--lora", str(self.language_model)] if self.language_model else []
        words = ["wgcc", "train", *(folder or [str(self.bundle)])]
        words += [str(self.data)] if self.data else []
        words += self.reading.words()
        options = {
            "--held-out": self.held_out,
            "--entry": None if self.entry == "train" else self.entry,
            "--steps": self.steps,
            "--patience": self.patience,
            "--every": self.every,
            "--eval": self.eval,
            "--weights": self.weights,
            "--log": self.log,
            "--receipt": self.receipt,
            "--receipt-every": self.receipt_every,
            "--device": self.device,
            "--out": self.out,
            **self.worker_options(),
        }
        for name, value in options.items():
            if value is not None:
                words += [name, str(value)]
        return shlex.join([*words, *(["--fast"] if self.fast else []), "--resume"])

    def worker_options(self) -> dict[str, Any]:
        workers = None if self.workers is None else "-".join(map(str, dict.fromkeys(self.workers)))
        return {
            "--workers": workers,
            "--ray": self.ray,
            "--sync-every": self.sync_every,
            "--outer-lr": self.outer_lr,
            "--outer-momentum": self.outer_momentum,
            "--sync-slack": self.sync_slack,
            "--cores": None if self.cores is None else f"{self.cores:g}",
            "--gpus": None if self.gpus is None else f"{self.gpus:g}",
        }


@click.command("train")
@click.argument("bundle", type=EXISTING)
@click.argument("data", type=DataFile(), required=False)
@data_options
@click.option(
    "--held-out",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Train without this share of the rows, such as 0.2, and evaluate on it.",
)
@click.option(
    "--entry",
    default="train",
    show_default=True,
    shell_complete=shell_completion.entries,
    help="Entry to train.",
)
@length_options
@click.option("--every", type=COUNT, default=10, show_default=True, help="Steps between reports.")
@click.option("--eval", "eval_data", type=EXISTING, help="Data to evaluate the entry `eval` on.")
@click.option("--weights", type=EXISTING, help="Start from these weights instead of the bundle's.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Checkpoint file [BUNDLE-trained.safetensors]."
)
@click.option("--resume", is_flag=True, help="Continue from the checkpoint, if it exists.")
@click.option(
    "--log",
    type=click.Path(),
    metavar="FILE|FOLDER/",
    help="A file for one line of JSON per report; or a folder, which gets log.jsonl and event "
    "files for TensorBoard.",
)
@click.option(
    "--batch",
    type=COUNT,
    help="Fail unless the bundle was built for this batch size; with --lora, build it so [1].",
)
@click.option("--seed", type=SEED, help="Seed of initial values and shuffling.")
@receipt_options
@captured_option
@lora_options
@worker_options
@device_option
@fast_option
@json_option
def command(
    bundle: Path,
    data: Path | None,
    eval_data: Path | None,
    out: Path | None,
    as_json: bool,
    lora: LoraOptions | None,
    steps: int | None,
    **rest: Any,
) -> None:
    """Train BUNDLE on DATA.

    DATA is a table (.csv, .tsv, .json), a folder of pictures with one folder per class, a text for
    a model with a vocabulary, or arrays named like the inputs (.npz, .safetensors, a folder of
    .npy files), or - for a table or text from a pipe; without DATA, what the bundle was built
    with. How files are read, what the options mean, and what is refused: wgcc/DATA.md. What was
    read is kept with the weights, so that `wgcc run` takes and predicts numbers and names as the
    file has them.

    Rows are shuffled and cut into batches; rows after the last full batch of an epoch are left
    out, and the next epoch has another order. Of the data of --eval every row counts.

    Ctrl-C finishes the step and saves a checkpoint; --resume continues from it and gives the same
    bits as a run without a break. A checkpoint of another model, or of another optimizer, cannot
    be resumed; --weights starts a new run from its parameters and state.

    With --lora, BUNDLE is the folder of an imported language model, and DATA a text, or JSON lines
    with `text` or with the `messages` of a conversation, of which answers are learned. What was
    learned is saved as FOLDER/adapter.safetensors, which `wgcc run FOLDER/lora decode --weights`
    takes.

    Started by `mpiexec -n 4`, or with --workers 4 on a Ray cluster, four processes train together:
    each computes the gradients of a batch of its own, and all use their mean.
    """
    default = bundle.resolve().parent / f"{bundle.resolve().stem}-trained.safetensors"
    if lora is not None:
        rest["language_model"], default = bundle, bundle / "adapter.safetensors"
        bundle = learning_bundle(bundle, data, lora)
    rest |= {"out": out or default, "steps": steps or default_steps(lora)}
    if steps and rest["epochs"]:
        raise click.UsageError("--steps and --epochs both say how long to train: give one")
    job = TrainingJob(bundle=bundle, data=data, eval=eval_data, **rest)
    if eval_data and job.held_out:
        raise click.UsageError("--eval and --held-out both say what to evaluate on: give one")
    if job.workers:
        refuse_for_several(job, "--workers")
    check_receipt(job)
    with failures():
        run(job, as_json)


def run(job: TrainingJob, as_json: bool) -> None:
    from wgcc.cli.commands.train.together import run_mpi, run_ray, started_together

    launcher = started_together()
    try:
        refuse_without_effect(job.worker_options(), launcher)
    except click.UsageError as error:
        if not launcher:
            raise
        # All processes raise it.
        if not is_muted():
            error.show()
        raise click.exceptions.Exit(error.exit_code) from None
    if launcher:
        refuse_for_several(job, "mpiexec")
        run_mpi(job, as_json)
    elif job.workers:
        run_ray(job, as_json)
    else:
        run_alone(job, as_json)


def run_alone(job: TrainingJob, as_json: bool) -> None:
    from wgcc.cli.adapters import load_with
    from wgcc.cli.progress import make_progress

    options = {"device": job.device, "seed": job.seed, "fast": job.fast}
    model = load_with(job.bundle, job.weights, **options)
    data = read_for(model.plan, job, model)
    check_batch(model.plan, job)
    data, evaluation = evaluation_of(model.plan, job, data)
    job = with_steps(model.plan, job, data)
    say(f"training `{job.entry}` of {model.plan.model} on {model.device_name}")
    callbacks = [*patience_callbacks(job), *receipt_callbacks(model, job, data)]
    started = time.perf_counter()
    with Interruption() as interruption, warnings_printed(), make_progress(job.steps) as progress:
        history = model.fit(
            data,
            entry=job.entry,
            steps=job.steps,
            every=job.every,
            eval=evaluation,
            log=job.log,
            checkpoint=job.out,
            resume=job.resume,
            seed=job.seed,
            callbacks=[progress.show, *callbacks],
            progress=False,
            stop=interruption.is_wanted,
        )
    if job.captured:
        model.captured.of(job.entry).save(job.captured)
    summary(model.progress.step(job.entry), job, history, time.perf_counter() - started, as_json)


def read_for(plan: Plan, job: TrainingJob, model: Model | StartValues) -> Data:
    """Data for the model, or for one that begins with these values."""
    from wgcc_runtime.bundle_files import open_bundle
    from wgcc_runtime.data.form import form_of
    from wgcc_runtime.data.known_classes import known_form
    from wgcc_runtime.data.preparation import is_only_names
    from wgcc_runtime.errors import WgccError
    from wgcc_runtime.values import bundle_data

    if job.language_model and job.data:
        return learned_rows(plan, job.language_model, job.data)
    if job.data:
        # Weights that were trained with a file go on with its columns, classes and scaling.
        known = model.preparation if job.weights and not job.reading.chooses else None
        form = known_form(plan, model.preparation, model.has_learned)
        data = job.reading.read(job.data, form, job.entry, preparation=known)
        say_reading(job.data, data, job.reading)
        if known and not is_only_names(known):
            say(f"note: Columns, classes and scaling are those of {job.weights}.")
        return data
    bundled_data = bundle_data(open_bundle(job.bundle), form_of(plan).entry(job.entry))
    if bundled_data is None:
        text = f"{job.bundle} holds no data for `{job.entry}`: give a file, or build it with --data"
        raise WgccError("data", text)
    # Weights that were trained with this data go on with its scaling; drawn ones have a seed.
    is_new = not job.weights and "seed" in plan.weights
    return replace(bundled_data, own_scaling=bundled_data.own_scaling and is_new)


def evaluation_of(plan: Plan, job: TrainingJob, data: Data) -> tuple[Data, Any]:
    """The data to train with, and what to evaluate on."""
    if job.eval and job.language_model:
        return data, learned_rows(plan, job.language_model, job.eval).arrays
    if job.eval:
        more = {"preparation": data.preparation} if data.preparation else {}
        return data, job.reading.read(job.eval, plan, "eval", **more).arrays
    if job.held_out is None:
        return data, None
    from wgcc_runtime.errors import WgccError

    if "eval" not in plan.entries:
        text = f"--held-out needs an entry `eval` that takes what `{job.entry}` takes"
        raise WgccError("name", f"{text} and does not train; the model has none", "eval")
    inputs = plan.entries["eval"].inputs
    train, held = data.split(job.held_out)
    say(f"{held.rows} of {data.rows} rows are held out; eval is on them")
    return train, replace(held, arrays={n: a for n, a in held.arrays.items() if n in inputs})


def check_batch(plan: Plan, job: TrainingJob) -> None:
    from wgcc_runtime.data.form import form_of
    from wgcc_runtime.errors import WgccError

    inputs = form_of(plan).entry(job.entry).inputs.values()
    shapes = [port.shape for port in inputs if port.shape]
    if job.batch is not None and shapes and shapes[0][0] != job.batch:
        raise WgccError(
            "shape",
            f"the bundle was built for batches of {shapes[0][0]}, not {job.batch}; sizes are set "
            f"by the build: wgcc build MODEL --set B={job.batch}",
        )


@dataclass(slots=True)
class Interruption:
    """Within it, the first Ctrl-C asks to stop after the step, the second one stops at once."""

    _wanted: bool = False
    _noticed: bool = False
    _before: Any = field(default=None)

    def __enter__(self) -> Interruption:
        self._before = signal.signal(signal.SIGINT, self)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def is_wanted(self) -> bool:
        return self._wanted

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        """Handles Ctrl-C."""
        if self._wanted:
            raise KeyboardInterrupt
        self._wanted = True
        self.notice()

    def notice(self) -> None:
        """The runtime handles Ctrl-C only after the step, so report at once that it was noticed."""
        if not self._noticed:
            self._noticed = True
            say("\nstopping after this step (Ctrl-C again stops at once) ...")


def summary(
    done: int, job: TrainingJob, history: History, seconds: float, as_json: bool, prefix: str = ""
) -> None:
    """`prefix`: what starts the command."""
    last = history.reports[-1] if history.reports else None
    if as_json:
        facts = {
            "steps": done,
            "stopped": history.stopped,
            "seconds": round(seconds, 3),
            "checkpoint": str(job.out),
            "warnings": list(history.notes),
            **({"workers": history.workers} if history.workers else {}),
            **(last.as_json() if last else {}),
        }
        show_json(facts)
    if last is None and history.stopped == "steps":
        say(f"nothing to do: {done} steps are done already (--steps is the total)")
    if last and done < last.step:
        say(f"no lower loss since step {done}: these are its weights")
    say(f"{done} steps in {seconds:.1f} s; saved {job.out}")
    for line in history.workers:
        say(f"  {line}")
    if history.stopped == "stop":
        say(f"continue with:\n  {prefix}{job.resume_command()}")
        raise click.exceptions.Exit(INTERRUPTED)
