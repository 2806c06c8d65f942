"""Progress of a training run: a live bar on a terminal, plain lines elsewhere. Both on stderr."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Protocol

import click

from wgcc.cli.printing import is_muted
from wgcc_runtime.progress import Pace, RichLine, describe

if TYPE_CHECKING:
    from wgcc_runtime.history import Report

# About how many lines a run prints where there is no terminal.
PLAIN_LINES = 20
# Fewer bytes are loaded in a moment.
LARGE_BYTES = 64_000_000


class Progress(Protocol):
    def show(self, report: Report) -> None: ...
    def __enter__(self) -> Progress: ...
    def __exit__(self, *_: object) -> None: ...


def make_progress(steps: int) -> Progress:
    """`steps` is the number of the last step."""
    return Bar(steps) if sys.stderr.isatty() else Lines(steps)


class Loading:
    """Says how many values of a large model are read or drawn; for `on_bytes` of `load`."""

    def __init__(self) -> None:
        self._said = 0.0

    def __call__(self, done: int, total: int) -> None:
        """Shows a line that changes on a terminal, and a line for each tenth elsewhere."""
        if total < LARGE_BYTES or is_muted():
            return
        text = f"values: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
        if sys.stderr.isatty():
            click.echo(f"\r{text}", err=True, nl=done >= total)
        elif done - self._said >= total / 10 or done >= total:
            self._said = done
            click.echo(text, err=True)


class Lines:
    """About `PLAIN_LINES` lines over the whole run, the last step among them."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._shown_at = -math.inf
        self._pace = Pace()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, report: Report) -> None:
        self._pace.add(report)
        due = report.step - self._shown_at >= self._steps / PLAIN_LINES
        if not (due or report.step == self._steps):
            return
        self._shown_at = report.step
        numbers, pace = describe(report), self._pace.text(self._steps)
        click.echo(f"step {report.step}/{self._steps}  {numbers}  {pace}", err=True)


class Bar:
    """One line that changes."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._line: RichLine | None = None

    def __enter__(self) -> Bar:
        self._line = RichLine(self._steps)
        return self

    def __exit__(self, *_: object) -> None:
        if self._line:
            self._line.close()

    def show(self, report: Report) -> None:
        assert self._line is not None
        self._line.show(report)
