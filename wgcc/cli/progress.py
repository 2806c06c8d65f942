"""Progress of a training run: a live bar on a terminal, plain lines elsewhere. Both on stderr."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import click

if TYPE_CHECKING:
    from wgcc_runtime.history import Report

BLOCKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 24
# About how many lines a run prints where there is no terminal.
PLAIN_LINES = 20


class Progress(Protocol):
    def show(self, report: Report) -> None: ...
    def __enter__(self) -> Progress: ...
    def __exit__(self, *_: object) -> None: ...


def make_progress(steps: int) -> Progress:
    """`steps` is the number of the last step."""
    return Bar(steps) if sys.stderr.isatty() else Lines(steps)


class Lines:
    """A line now and then, and whenever something was evaluated."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._shown_at = -math.inf
        self._pace = Pace()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, report: Report) -> None:
        ms = self._pace.ms(report)
        due = report.step - self._shown_at >= self._steps / PLAIN_LINES
        if not (due or report.step == self._steps):
            return
        self._shown_at = report.step
        eta = clock((self._steps - report.step) * ms / 1000)
        numbers = describe(report)
        click.echo(
            f"step {report.step}/{self._steps}  {numbers}  {ms:.2f} ms/step  eta {eta}", err=True
        )


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
        ms = self._pace.ms(report)
        eta = clock((self._steps - report.step) * ms / 1000)
        self._progress.update(
            self._task,
            completed=report.step,
            numbers=describe(report),
            curve=sparkline(self._losses),
            pace=f"{ms:.2f} ms/step  eta {eta}",
        )


class Pace:
    """Milliseconds per step since the first report, which includes compiling."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None

    def ms(self, report: Report) -> float:
        now = time.perf_counter()
        if self._first is None:
            self._first = report.step, now
            return report.ms
        step, started = self._first
        return 1000 * (now - started) / max(1, report.step - step)


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
