"""Reports of a training: records in memory, and lines of JSON in a log file."""

from __future__ import annotations

import contextlib
import html
import importlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wgcc_runtime.errors import WgccError
from wgcc_runtime.replace_file import replace_file
from wgcc_runtime.weights import cannot_write

# Keys of reports and of `wgcc train --json` that are not outputs.
FACTS = ("step", "ms", "steps", "stopped", "seconds", "checkpoint", "warnings")
# How many reports a notebook shows of a history.
SHOWN_REPORTS = 20


@dataclass(frozen=True, slots=True)
class Report:
    """The scalar outputs at one step; `loss` is the output with that name, or the first.

    `ms` is the time per step since the last report, without evaluating, reporting and saving.
    """

    step: int
    loss: float
    outputs: Mapping[str, float]
    eval: Mapping[str, float]
    ms: float

    def as_json(self) -> dict[str, Any]:
        own = {_key(name): value for name, value in self.outputs.items()}
        extra = {f"eval_{name}": value for name, value in self.eval.items()}
        return {"step": self.step, **own, **extra, "ms": round(self.ms, 4)}


def _key(output: str) -> str:
    """An output with the name of another key of the report, such as `step`, becomes `out_step`."""
    return f"out_{output}" if output in FACTS or output.startswith(("eval_", "out_")) else output


class Pace:
    """The time that steps take, from one report to the next."""

    def __init__(self) -> None:
        self._steps, self._seconds = 0, 0.0

    def add(self, steps: int, seconds: float) -> None:
        self._steps += steps
        self._seconds += seconds

    def ms(self) -> float:
        """Milliseconds per step since the last call."""
        per_step = 1000 * self._seconds / max(1, self._steps)
        self._steps, self._seconds = 0, 0.0
        return per_step


@dataclass(slots=True, repr=False)
class History:
    """All reports of a `fit`, and why it ended (`steps`, `data`, `callback` or `stop`).

    `notes`: warnings about the checkpoint that training was resumed from. `workers`: a line for
    each, if there were several; `steps_done` are then those of all together.
    """

    reports: list[Report] = field(default_factory=list)
    stopped: str = "steps"
    notes: tuple[str, ...] = ()
    workers: list[str] = field(default_factory=list)
    steps_done: int = 0

    @property
    def losses(self) -> list[float]:
        return [report.loss for report in self.reports]

    @property
    def steps(self) -> list[int]:
        return [report.step for report in self.reports]

    @property
    def loss(self) -> float:
        """The last loss reported."""
        if not self.reports:
            raise WgccError("data", "no step was made, so there is no loss")
        return self.reports[-1].loss

    def frame(self) -> Any:
        """The reports as a frame of pandas, or of polars if only that is installed."""
        rows = [report.as_json() for report in self.reports]
        for name in ("pandas", "polars"):
            with contextlib.suppress(ImportError):
                return importlib.import_module(name).DataFrame(rows)
        raise WgccError("data", "History.frame needs pandas or polars: pip install pandas")

    def plot(self, ax: Any = None) -> Any:
        """Draws the loss and what was evaluated over the steps; returns matplotlib's axes."""
        axes = _new_axes() if ax is None else ax
        axes.plot(self.steps, self.losses, label="loss")
        evaluated = [report for report in self.reports if report.eval]
        for name in dict.fromkeys(name for report in evaluated for name in report.eval):
            points = [(r.step, r.eval[name]) for r in evaluated if name in r.eval]
            axes.plot(*zip(*points, strict=True), label=f"eval {name}")
        axes.set_xlabel("step")
        axes.legend()
        return axes

    def __repr__(self) -> str:
        if not self.reports:
            return "<History without reports>"
        last = self.reports[-1]
        numbers = {**last.outputs, **{f"eval {name}": n for name, n in last.eval.items()}}
        shown = ", ".join(f"{name} {number:.4g}" for name, number in numbers.items())
        count = f"{len(self.reports)} report{'' if len(self.reports) == 1 else 's'}"
        return f"<History: {count}, step {last.step}: {shown}; ended by {self.stopped}>"

    def _repr_html_(self) -> str:
        """A table of the last reports, for notebooks."""
        rows = [report.as_json() for report in self.reports[-SHOWN_REPORTS:]]
        names = dict.fromkeys(name for row in rows for name in row)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        cells = (
            "".join(f"<td>{row[name]:.6g}</td>" if name in row else "<td></td>" for name in names)
            for row in rows
        )
        body = "".join(f"<tr>{line}</tr>" for line in cells)
        return f"<p>{html.escape(repr(self))}</p><table><tr>{head}</tr>{body}</table>"

    def back_to(self, step: int) -> None:
        """Drops the reports after this step, because the steps are repeated."""
        self.reports = [report for report in self.reports if report.step <= step]


def _new_axes() -> Any:
    try:
        plots = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        text = "History.plot needs matplotlib: pip install matplotlib"
        raise WgccError("data", text) from None
    return plots.subplots()[1]


class Log:
    """A .jsonl file with one report per line. A resumed run continues after its checkpoint."""

    def __init__(self, path: str | Path, step: int) -> None:
        self._path = Path(path)
        self._open(step)

    def back_to(self, step: int) -> None:
        """Drops the lines after this step."""
        Log.close(self)
        self._open(step)

    def _open(self, step: int) -> None:
        kept = [line for line in self._lines() if step and _step_of(line) <= step]
        self._last = json.loads(kept[-1]) if kept else {}
        try:
            replace_file(self._path, "".join(f"{line}\n" for line in kept).encode())
            self._stream = open(self._path, "a", encoding="utf-8", opener=_no_link)  # noqa: SIM115
        except (OSError, ValueError) as error:
            raise cannot_write("log", self._path, error) from None

    def write(self, report: Report) -> None:
        self._write_line(report.as_json())

    def _write_line(self, facts: Mapping[str, Any]) -> None:
        try:
            self._stream.write(json.dumps(facts) + "\n")
            self._stream.flush()
        except OSError as error:
            raise cannot_write("log", self._path, error) from None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()

    def _lines(self) -> list[str]:
        try:
            if not self._path.is_file():
                return []  # opening a pipe would wait for a writer
            return self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            return []


def _no_link(path: str, flags: int) -> int:
    """Never writes through a symbolic link; Windows has no such flag."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _step_of(line: str) -> float:
    """A line of another form counts as later than every step, so that it is dropped."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")
