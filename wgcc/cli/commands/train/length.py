"""How long `wgcc train` trains: for steps or passes over the data, or until nothing gets better."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.options import several

if TYPE_CHECKING:
    from wgcc.cli.commands.train import TrainingJob
    from wgcc_runtime.data.preparation import Data
    from wgcc_runtime.plan import Plan

COUNT = click.IntRange(min=1)

length_options = several(
    click.option(
        "--steps",
        type=COUNT,
        help="Total number of steps, counting those of a resumed run [1000; with --lora 100].",
    ),
    click.option("--epochs", type=COUNT, help="Instead: how often to go through the data."),
    click.option(
        "--patience",
        type=COUNT,
        help="End after so many evaluations (or reports) without a lower loss, with the weights of "
        "the lowest.",
    ),
)


def with_steps(plan: Plan, job: TrainingJob, data: Data) -> TrainingJob:
    """The job with the number of steps that its epochs are."""
    if job.epochs is None:
        return job
    from wgcc_runtime.batches import Length
    from wgcc_runtime.fit_data import epoch_steps

    steps = epoch_steps(data.arrays, plan.entries[job.entry], Length(True, job.epochs))
    return replace(job, steps=steps or job.steps)


def patience_callbacks(job: TrainingJob) -> list[Any]:
    if job.patience is None:
        return []
    from wgcc_runtime.early_stopping import EarlyStopping

    return [EarlyStopping(job.patience)]
