"""`wgcc train`: trains a bundle on a file of data, with progress, checkpoints and resuming."""

from __future__ import annotations

import shlex
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.failures import failures, warnings_printed
from wgcc.cli.group import INTERRUPTED
from wgcc.cli.options import SEED, device_option, json_option
from wgcc.cli.printing import say, show_json

if TYPE_CHECKING:
    from wgcc_runtime.history import History
    from wgcc_runtime.model import Model

EXISTING = click.Path(exists=True, path_type=Path)
COUNT = click.IntRange(min=1)


@dataclass(frozen=True, slots=True)
class Job:
    """The command line of one training."""

    bundle: Path
    data: Path
    entry: str
    steps: int
    every: int
    out: Path
    eval: Path | None
    weights: Path | None
    log: Path | None
    batch: int | None
    seed: int | None
    device: str | None
    resume: bool

    def resume_command(self) -> str:
        words = ["wgcc", "train", str(self.bundle), str(self.data)]
        options = {
            "--entry": None if self.entry == "train" else self.entry,
            "--steps": self.steps,
            "--every": self.every,
            "--eval": self.eval,
            "--weights": self.weights,
            "--log": self.log,
            "--device": self.device,
            "--out": self.out,
        }
        for name, value in options.items():
            if value is not None:
                words += [name, str(value)]
        return shlex.join([*words, "--resume"])


@click.command("train")
@click.argument("bundle", type=EXISTING)
@click.argument("data", type=EXISTING)
@click.option("--entry", default="train", show_default=True, help="Entry to train.")
@click.option(
    "--steps",
    type=COUNT,
    default=1000,
    show_default=True,
    help="Total number of steps, counting those of a resumed run.",
)
@click.option("--every", type=COUNT, default=10, show_default=True, help="Steps between reports.")
@click.option("--eval", "eval_data", type=EXISTING, help="Data to evaluate the entry `eval` on.")
@click.option("--weights", type=EXISTING, help="Start from these weights instead of the bundle's.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Checkpoint file [BUNDLE-trained.safetensors]."
)
@click.option("--resume", is_flag=True, help="Continue from the checkpoint, if it exists.")
@click.option(
    "--log", type=click.Path(path_type=Path), help="File for one line of JSON per report."
)
@click.option("--batch", type=COUNT, help="Fail unless the bundle was built for this batch size.")
@click.option("--seed", type=SEED, help="Seed of initial values and shuffling.")
@device_option
@json_option
def command(
    bundle: Path, data: Path, eval_data: Path | None, out: Path | None, as_json: bool, **rest: Any
) -> None:
    """Train BUNDLE on DATA.

    DATA is a .npz, .safetensors or .csv file, or a folder of .npy files, with one array per input
    of the entry. Arrays with more rows than a batch are shuffled and cut into batches; rows after
    the last full batch of an epoch are left out, and the next epoch has another order. Of the data
    of --eval every row counts.

    Ctrl-C finishes the step and saves a checkpoint; --resume continues from it and gives the same
    bits as a run without a break. A checkpoint of another model, or of another optimizer, cannot
    be resumed; --weights starts a new run from its parameters and state.
    """
    default = bundle.resolve().parent / f"{bundle.resolve().stem}-trained.safetensors"
    job = Job(bundle=bundle, data=data, eval=eval_data, out=out or default, **rest)
    with failures():
        run(job, as_json)


def run(job: Job, as_json: bool) -> None:
    import wgcc_runtime
    from wgcc.cli.data import read_inputs
    from wgcc.cli.progress import make_progress

    model = wgcc_runtime.load(job.bundle, device=job.device, weights=job.weights, seed=job.seed)
    data = read_inputs(job.data, model.entry(job.entry))
    _check_batch(model, job)
    evaluation = read_inputs(job.eval, model.entry("eval")) if job.eval else None
    say(f"training `{job.entry}` of {model.plan.model} on {model.device_name}")
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
            callbacks=[progress.show],
            stop=interruption.is_wanted,
        )
    _summary(model, job, history, time.perf_counter() - started, as_json)


def _check_batch(model: Model, job: Job) -> None:
    from wgcc_runtime.errors import WgccError

    shapes = [tensor.shape for tensor in model.entry(job.entry).inputs.values() if tensor.shape]
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


def _summary(model: Model, job: Job, history: History, seconds: float, as_json: bool) -> None:
    done = model.progress.step(job.entry)
    last = history.reports[-1] if history.reports else None
    if as_json:
        facts = {
            "steps": done,
            "stopped": history.stopped,
            "seconds": round(seconds, 3),
            "checkpoint": str(job.out),
            "warnings": list(history.notes),
            **(last.as_json() if last else {}),
        }
        show_json(facts)
    if last is None and history.stopped == "steps":
        say(f"nothing to do: {done} steps are done already (--steps is the total)")
    say(f"{done} steps in {seconds:.1f} s; saved {job.out}")
    if history.stopped == "stop":
        say(f"continue with:\n  {job.resume_command()}")
        raise click.exceptions.Exit(INTERRUPTED)
