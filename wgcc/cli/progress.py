"""Progress of a training run: a live bar on a terminal, plain lines elsewhere. Both on stderr."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import click

from wgcc.cli.printing import is_muted

if TYPE_CHECKING:
    from wgcc_runtime.history import Report

BLOCKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 24
BAR_WIDTH = 16
GAP = "  "
STYLES = {"bar": "magenta", "curve": "cyan", "pace": "dim", "eta": "dim"}
# Parts of the line as they are shown, and those that may be left out, the least important last.
SHOWN = ("bar", "step", "numbers", "eval", "curve", "pace", "eta")
OPTIONAL = ("numbers", "pace", "curve", "bar")
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
    """One line that changes: bar, step, loss, its curve so far, speed, time left."""

    def __init__(self, steps: int) -> None:
        from rich.console import Console
        from rich.live import Live

        self._steps = steps
        self._losses: list[float] = []
        self._pace = Pace()
        self._console = Console(stderr=True)
        self._live: Any = Live(console=self._console)

    def __enter__(self) -> Bar:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, report: Report) -> None:
        from rich.text import Text

        self._losses.append(report.loss)
        self._pace.add(report)
        parts = line_parts(report, self._steps, self._losses, self._pace, self._console.width)
        self._live.update(Text(GAP).join(Text(text, STYLES.get(kind, "")) for kind, text in parts))


def line_parts(
    report: Report, steps: int, losses: Sequence[float], pace: Pace, width: int
) -> list[tuple[str, str]]:
    """What fits into `width` columns, by kind; step, loss, evaluation and time left always stay."""
    main = "loss" if "loss" in report.outputs else next(iter(report.outputs), "loss")
    others = {name: value for name, value in report.outputs.items() if name != main}
    evaluated = {f"eval {name}": value for name, value in report.eval.items()}
    parts = {
        "step": f"{report.step}/{steps}{GAP}{main} {report.loss:.4g}",
        "eval": _numbers(evaluated),
        "eta": pace.eta(steps),
    }
    optional = {
        "numbers": _numbers(others),
        "pace": pace.speed(),
        "curve": sparkline(losses),
        "bar": _bar(report.step / steps),
    }
    for kind in OPTIONAL:
        wider = {**parts, kind: optional[kind]}
        if len(GAP.join(filter(None, wider.values()))) <= width:
            parts = wider
    return [(kind, parts[kind]) for kind in SHOWN if parts.get(kind)]


def _bar(share: float) -> str:
    done = round(BAR_WIDTH * min(1.0, share))
    return "━" * done + "╌" * (BAR_WIDTH - done)


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
        return f"{self.speed()}{GAP}{self.eta(last_step)}"

    def speed(self) -> str:
        assert self._last is not None
        return f"{self._last.ms:.2f} ms/step"

    def eta(self, last_step: int) -> str:
        assert self._last is not None
        mean = self._ms / self._steps if self._steps else self._last.ms
        return f"eta {clock((last_step - self._last.step) * mean / 1000)}"


def describe(report: Report) -> str:
    """`loss 0.1234  acc 0.98  eval loss 0.2`."""
    return _numbers({**report.outputs, **{f"eval {k}": v for k, v in report.eval.items()}})


def _numbers(numbers: Mapping[str, float]) -> str:
    return GAP.join(f"{name} {value:.4g}" for name, value in numbers.items())


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
