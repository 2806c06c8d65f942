"""The options of `wgcc train` that make a receipt of the training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.options import several

if TYPE_CHECKING:
    from wgcc.cli.commands.train import TrainingJob
    from wgcc_runtime.data.preparation import Data
    from wgcc_runtime.model import Model

receipt_options = several(
    click.option(
        "--receipt",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write what this training started from, and digests of its weights, for `wgcc "
        "replay`.",
    ),
    click.option(
        "--receipt-every",
        type=click.IntRange(min=1),
        help="Steps between digests; they are taken at reports [a twentieth of the steps].",
    ),
)


def check_receipt(job: TrainingJob) -> None:
    """A receipt is for others, who have the same bundle and no other processes."""
    if job.receipt_every and not job.receipt:
        raise click.UsageError("--receipt-every is the period of --receipt FILE")
    if job.receipt and job.language_model:
        raise click.UsageError("--receipt does not go with --lora")


def receipt_callbacks(model: Model, job: TrainingJob, data: Data) -> list[Any]:
    if job.receipt is None:
        return []
    from wgcc_runtime.receipts import ReceiptWriter, run_of

    options = {"held_out": job.held_out, "seed": job.seed, "every": job.every}
    reading = job.reading.words() if job.data else []
    run = run_of(model, job.bundle, job.entry, data.arrays, reading=reading, **options)
    return [ReceiptWriter(job.receipt, run, job.receipt_every)]
