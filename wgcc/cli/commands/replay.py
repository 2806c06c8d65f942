"""`wgcc replay`: trains again as a receipt says, and compares the weights on the way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.commands.train import Interruption, TrainingJob, evaluation_of, read_for
from wgcc.cli.data import DataFile, reading_of
from wgcc.cli.failures import CHECK_FAILED, INTERRUPTED, failures
from wgcc.cli.options import device_option, json_option
from wgcc.cli.printing import plural, say, show_json
from wgcc.cli.progress import Loading, make_progress

if TYPE_CHECKING:
    from wgcc_runtime.receipts import Receipt, Replay

EXISTING = click.Path(exists=True, path_type=Path)


@click.command("replay")
@click.argument("receipt", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("bundle", type=EXISTING)
@click.argument("data", type=DataFile(), required=False)
@click.option("--weights", type=EXISTING, help="The weights that the training started from.")
@click.option("--from", "start", type=EXISTING, help="Begin at this checkpoint of the training.")
@device_option
@json_option
def command(
    receipt: Path,
    bundle: Path,
    data: Path | None,
    weights: Path | None,
    start: Path | None,
    device: str | None,
    as_json: bool,
) -> None:
    """Train BUNDLE on DATA again, as RECEIPT of `wgcc train --receipt` says.

    The bundle and the data must be those of the receipt: their digests are compared first. The
    training runs on the WebAssembly twin, which gives the same bits on every machine, and stops
    where its weights depart from the receipt: exit code 3. A receipt that a GPU or --fast made, or
    a replay on a GPU (--device), has other bits: its losses are compared, which may be 1 % apart.
    """
    with failures():
        from wgcc_runtime.receipts import read_receipt

        made = read_receipt(receipt)
        job = _job(made, bundle, data, weights)
        replay, stopped = _train_again(made, job, start, device or "wasm")
    if stopped:
        raise click.exceptions.Exit(INTERRUPTED)
    _show(replay, as_json)
    if replay.parted:
        raise click.exceptions.Exit(CHECK_FAILED)


def _job(receipt: Receipt, bundle: Path, data: Path | None, weights: Path | None) -> TrainingJob:
    """The training of the receipt, as a command line would say it."""
    from wgcc_runtime.errors import WgccError

    run = receipt.run
    try:
        reading = reading_of(run.reading)
    except click.ClickException as error:
        text = f"the receipt says how data was read in words of no use: {error.message}"
        raise WgccError("receipt", text) from None
    steps = receipt.points[-1].step
    return TrainingJob(
        bundle=bundle, data=data, reading=reading, entry=run.entry, steps=steps, every=run.every,
        out=Path(), eval=None, weights=weights, log=None, batch=None, seed=run.seed, device=None,
        resume=False, held_out=run.held_out,
    )  # fmt: skip


def _train_again(
    receipt: Receipt, job: TrainingJob, start: Path | None, device: str
) -> tuple[Replay, bool]:
    import wgcc_runtime
    from wgcc_runtime.receipts import Replay, refuse_other, run_of

    model = wgcc_runtime.load(
        job.bundle, device=device, weights=job.weights, seed=job.seed, on_bytes=Loading()
    )
    data = read_for(model.plan, job, model)
    data, _ = evaluation_of(model.plan, job, data)
    refuse_other(receipt, run_of(model, job.bundle, job.entry, data.arrays))
    replay = Replay(receipt, exact=receipt.exact and model.is_twin, model=model)
    say(f"replaying {job.steps} steps of `{job.entry}` of {model.plan.model}, {_how(replay)}")
    fitting: dict[str, Any] = {"resume": start} if start else {}
    with Interruption() as interruption, make_progress(job.steps) as progress:
        history = model.fit(
            data, entry=job.entry, steps=job.steps, every=job.every, seed=job.seed,
            callbacks=[progress.show, replay], progress=False, stop=interruption.is_wanted,
            **fitting,
        )  # fmt: skip
    return replay, history.stopped == "stop"


def _how(replay: Replay) -> str:
    if replay.exact:
        return f"made on {replay.receipt.device}: comparing bits"
    return f"made on {replay.receipt.device}: comparing losses, on {replay.model.device_name}"


def _show(replay: Replay, as_json: bool) -> None:
    parted = replay.parted.step if replay.parted else None
    if as_json:
        show_json({
            "exact": replay.exact, "compared": replay.compared,
            "equal_until": replay.equal_until, "parted": parted,
        })  # fmt: skip
    if parted is None:
        what = "weights are the same bits" if replay.exact else "losses agree within 1 %"
        points = plural(replay.compared, "point")
        say(f"{what} at {points}, the last at step {replay.equal_until}")
    elif replay.equal_until is None:
        say(f"the weights differ at step {parted}, where the training starts", style="error")
        say("hint: give the weights or the checkpoint it started from: --weights or --from")
    else:
        what = "weights" if replay.exact else "losses"
        text = (
            f"{what} depart between step {replay.equal_until}, where they are equal, and {parted}"
        )
        say(text, style="error")
