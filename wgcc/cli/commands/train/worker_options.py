"""Options of `wgcc train` for several workers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.options import several

if TYPE_CHECKING:
    from wgcc.cli.commands.train import TrainingJob

# The least and the most workers.
Range = tuple[int, int]
# Options for workers of Ray.
OF_RAY = ("--workers", "--ray", "--cores", "--gpus")


def _range(ctx: click.Context, param: click.Parameter, text: str | None) -> Range | None:
    if text is None:
        return None
    match = re.fullmatch(r"([1-9]\d{0,4})(?:-([1-9]\d{0,4}))?", text)
    least, most = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if least > most:
        raise click.BadParameter(f"{text!r} is not a number, nor MIN-MAX such as 2-8")
    return least, most


worker_options = several(
    click.option(
        "--workers",
        metavar="N or MIN-MAX",
        callback=_range,
        help="Train with so many workers of a Ray cluster: `4`, or `2-8` as they come and go.",
    ),
    click.option(
        "--ray",
        metavar="ADDRESS",
        help="The Ray cluster [one on this machine], such as `10.0.0.1:6379` or `auto`.",
    ),
    click.option(
        "--cores",
        type=click.FloatRange(min=0),
        metavar="N",
        help="With --workers: cores for each [1], as threads of one that has no GPU.",
    ),
    click.option(
        "--gpus",
        type=click.FloatRange(min=0, max=1),
        metavar="SHARE",
        help="With --workers: 1 gives each a GPU of its own, 0.5 one for two [0].",
    ),
    click.option(
        "--sync-every",
        type=click.IntRange(min=1),
        metavar="N",
        help="Average weights after N steps of each worker, instead of gradients in each step.",
    ),
    click.option(
        "--outer-lr",
        type=float,
        help="With --sync-every: rate of the step towards the average [1] (DiLoCo: 0.7).",
    ),
    click.option(
        "--outer-momentum",
        type=float,
        help="With --sync-every: Nesterov momentum of that step [0] (DiLoCo: 0.9).",
    ),
    click.option(
        "--sync-slack",
        type=click.FloatRange(min=0),
        metavar="SHARE",
        help="With --sync-every: how much longer than the fastest others may take [0.5].",
    ),
)


def refuse_for_several(job: TrainingJob, launcher: str) -> None:
    """Options that one process alone can follow."""
    flags = {"--fast": job.fast} if launcher == "--workers" else {}
    alone = {**flags, "--receipt": job.receipt, "--epochs": job.epochs, "--patience": job.patience}
    alone["--captured"] = job.captured
    for option in (name for name, value in alone.items() if value):
        raise click.UsageError(f"{option} is for a single process, not for {launcher}")


def refuse_without_effect(options: Mapping[str, Any], launcher: str) -> None:
    """`launcher`: what started this process together with others, or nothing."""
    given = [name for name, value in options.items() if value is not None]
    for name in given:
        if name in OF_RAY and launcher:
            text = f"{name} is for workers of Ray, but {launcher} has started this process as one"
            raise click.UsageError(f"{text} of several workers already: leave out one of the two")
        if name in OF_RAY and "--workers" not in given:
            raise click.UsageError(f"{name} needs --workers N")
        if name.startswith(("--outer", "--sync-slack")) and "--sync-every" not in given:
            raise click.UsageError(f"{name} needs --sync-every N")
        if not launcher and "--workers" not in given:
            text = f"{name} needs several workers: --workers N, or mpiexec -n N"
            raise click.UsageError(text)
