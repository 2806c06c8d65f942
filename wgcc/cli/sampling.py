"""Options of commands that let a language model write."""

from __future__ import annotations

import functools
from typing import Any

import click

from wgcc.cli.options import Command, several

NAMES = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
_OPTIONS = several(
    click.option(
        "--temperature",
        type=click.FloatRange(min=0),
        help="How far likely tokens are preferred; 0 always takes the likeliest [0.8].",
    ),
    click.option("--top-k", type=click.IntRange(min=1), help="Only the K likeliest tokens."),
    click.option(
        "--top-p",
        type=click.FloatRange(0, 1, min_open=True),
        help="Only as few of the likeliest as make up this share.",
    ),
    click.option(
        "--min-p",
        type=click.FloatRange(0, 1),
        help="Only tokens with this share of the largest probability.",
    ),
    click.option(
        "--repetition-penalty",
        type=click.FloatRange(min=0, min_open=True),
        help="Above 1: tokens that were there before become less likely.",
    ),
)


def sampling_options(command: Command) -> Command:
    """The command gets those that were given as `sampling`, by their names in `generate`."""

    @functools.wraps(command)
    def with_sampling(**given: Any) -> Any:
        own = {name: given.pop(name) for name in NAMES}
        sampling = {name: value for name, value in own.items() if value is not None}
        return command(sampling=sampling, **given)

    return _OPTIONS(with_sampling)
