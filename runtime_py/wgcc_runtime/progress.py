"""How training goes on, in one line: bar, step, loss, its curve so far, speed, time left."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wgcc_runtime.history import Report
    from wgcc_runtime.model import Model

BLOCKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 24
BAR_WIDTH = 16
GAP = "  "
STYLES = {"bar": "magenta", "curve": "cyan", "pace": "dim", "eta": "dim"}
# Parts of the line as they are shown, and those that may be left out, the least important last.
SHOWN = ("bar", "step", "numbers", "eval", "curve", "pace", "eta")
OPTIONAL = ("numbers", "pace", "curve", "bar")
# Columns of the line in a notebook, which has no width of its own.
NOTEBOOK_WIDTH = 120


def is_shown(wanted: bool | None) -> bool:
    """Unless a caller says it: on a terminal and in a notebook, so that pipes stay clean."""
    return (_is_notebook() or sys.stderr.isatty()) if wanted is None else bool(wanted)


def _is_notebook() -> bool:
    """Whether a kernel of Jupyter or of marimo runs this; IPython in a terminal shows no HTML."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module else None
    return (shell is not None and hasattr(shell, "kernel")) or marimo_module() is not None


def marimo_module() -> Any:
    """marimo, if this code is in one of its notebooks."""
    module: Any = sys.modules.get("marimo")
    return module if module is not None and module.running_in_notebook() else None


def choose_progress(steps: int | None) -> Any:
    """A callback of `fit`: the widget in a notebook that can show it, else a line of text."""
    if _is_notebook():
        with contextlib.suppress(ImportError):
            from wgcc_runtime.notebook.live import LiveTraining

            return LiveTraining(steps, shows=True)
    return ProgressLine(steps)


class ProgressLine:
    """A callback of `fit`. `steps`: how many it makes, if they are known beforehand."""

    def __init__(self, steps: int | None = None) -> None:
        self._given = steps
        self._line: Line | None = None

    def begin(self, model: Model, last: int | None) -> None:
        done = model.steps_done
        self._line = open_line(last or (done + self._given if self._given else None))

    def __call__(self, report: Report) -> None:
        assert self._line is not None
        self._line.show(report)

    def close(self) -> None:
        if self._line is not None:
            self._line.close()


class Line:
    """A line that changes: of rich where it is installed, else of plain text."""

    def __init__(self, steps: int | None) -> None:
        self._steps = steps
        self._losses: list[float] = []
        self._pace = Pace()
        self._width = 80

    def show(self, report: Report) -> None:
        self._losses.append(report.loss)
        self._pace.add(report)
        self._draw(line_parts(report, self._steps, self._losses, self._pace, self._width))

    def _draw(self, parts: Sequence[tuple[str, str]]) -> None:
        text = GAP.join(part for _, part in parts)
        sys.stderr.write(f"\r{text.ljust(self._width - 1)}")
        sys.stderr.flush()

    def close(self) -> None:
        """The last line stays."""
        if self._losses:
            sys.stderr.write("\n")


class RichLine(Line):
    """A line on a terminal."""

    def __init__(self, steps: int | None) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(steps)
        console = Console(stderr=True)
        self._width = console.width
        self._live: Any = Live(console=console)
        self._live.start()

    def _draw(self, parts: Sequence[tuple[str, str]]) -> None:
        from rich.text import Text

        self._live.update(Text(GAP).join(Text(text, STYLES.get(kind, "")) for kind, text in parts))

    def close(self) -> None:
        self._live.stop()


class NotebookLine(Line):
    """A line in a cell of a notebook."""

    def __init__(self, steps: int | None) -> None:
        super().__init__(steps)
        self._width = NOTEBOOK_WIDTH
        self._handle: Any = None

    def _draw(self, parts: Sequence[tuple[str, str]]) -> None:
        from IPython.display import display

        shown = {"text/plain": GAP.join(part for _, part in parts)}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def close(self) -> None:
        """The output of the cell stays."""


def open_line(steps: int | None) -> Line:
    if _is_notebook() and marimo_module() is None:
        return NotebookLine(steps)
    try:
        return RichLine(steps)
    except ImportError:
        return Line(steps)


def line_parts(
    report: Report, steps: int | None, losses: Sequence[float], pace: Pace, width: int
) -> list[tuple[str, str]]:
    """The parts that fit `width` columns; step, loss, evaluation and time left always stay."""
    main = "loss" if "loss" in report.outputs else next(iter(report.outputs), "loss")
    others = {name: value for name, value in report.outputs.items() if name != main}
    evaluated = {f"eval {name}": value for name, value in report.eval.items()}
    total = "" if steps is None else f"/{steps}"
    parts = {
        "step": f"{report.step}{total}{GAP}{main} {report.loss:.4g}",
        "eval": _numbers(evaluated),
        "eta": "" if steps is None else pace.eta(steps),
    }
    optional = {
        "numbers": _numbers(others),
        "pace": pace.speed(),
        "curve": sparkline(losses),
        "bar": "" if steps is None else _bar(report.step / steps),
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
