"""Progress of a training run: a live bar on a terminal, plain lines elsewhere. Both on stderr."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import click

from wgcc.cli.printing import is_muted

if TYPE_CHECKING:
    from wgcc_runtime.history import Report

BLOCKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 24
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
        """On a terminal a line that changes, elsewhere one for each tenth."""
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
    """One line that changes: bar, loss, its curve so far, speed, time left."""

    def __init__(self, steps: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichProgress

        columns = (
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TextColumn("[cyan]{task.fields[curve]}"),
            TextColumn("[dim]{task.fields[pace]}"),
        )
        self._steps = steps
        self._losses: list[float] = []
        self._pace = Pace()
        self._progress: Any = RichProgress(*columns, console=Console(stderr=True))
        self._task: Any = self._progress.add_task("", total=steps, numbers="", curve="", pace="")

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, report: Report) -> None:
        self._losses.append(report.loss)
        self._pace.add(report)
        self._progress.update(
            self._task,
            completed=report.step,
            numbers=describe(report),
            curve=sparkline(self._losses),
            pace=self._pace.text(self._steps),
        )


class Pace:
    """The speed of training as reports and the log give it: the time of the steps alone.

    The time left is estimated from all reports but the first, which includes compiling.
    """

    def __init__(self) -> None:
        self._last: Report | None = None
        self._steps, self._ms = 0, 0.0

    def add(self, report: Report) -> None:
        if self._last:
            steps = report.step - self._last.step
            self._steps += steps
            self._ms += steps * report.ms
        self._last = report

    def text(self, last_step: int) -> str:
        """`2.31 ms/step  eta 00:17`"""
        assert self._last is not None
        mean = self._ms / self._steps if self._steps else self._last.ms
        eta = clock((last_step - self._last.step) * mean / 1000)
        return f"{self._last.ms:.2f} ms/step  eta {eta}"


def describe(report: Report) -> str:
    """`loss 0.1234  acc 0.98  eval loss 0.2`."""
    numbers = {**report.outputs, **{f"eval {k}": v for k, v in report.eval.items()}}
    return "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())


def sparkline(values: Sequence[float], width: int = SPARK_WIDTH) -> str:
    """The curve of a whole run in a few characters; logarithmic where all are positive."""
    if not values:
        return ""
    count = min(width, len(values))
    ends = [len(values) * (i + 1) // count for i in range(count)]
    starts = [0, *ends[:-1]]
    means = [sum(values[a:b]) / (b - a) for a, b in zip(starts, ends, strict=True)]
    if min(means) > 0:
        means = [math.log(mean) for mean in means]
    low, span = min(means), max(means) - min(means)
    return "".join(BLOCKS[int((m - low) / span * 7 + 0.5) if span else 0] for m in means)


def clock(seconds: float) -> str:
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    text = f"{rest // 60:02}:{rest % 60:02}"
    return f"{hours}:{text}" if hours else text
