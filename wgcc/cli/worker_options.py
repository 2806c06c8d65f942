"""Options of `wgcc train` for several workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def worker_options(command: Command) -> Command:
    options = [
        click.option(
            "--sync-every",
            type=click.IntRange(min=1),
            metavar="N",
            help="Average weights after N steps of each worker, instead of gradients in each step.",
        ),
        click.option(
            "--outer-lr",
            type=float,
            default=1.0,
            show_default=True,
            help="With --sync-every: rate of the step towards the average (DiLoCo: 0.7).",
        ),
        click.option(
            "--outer-momentum",
            type=float,
            default=0.0,
            show_default=True,
            help="With --sync-every: Nesterov momentum of that step (DiLoCo: 0.9).",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command
