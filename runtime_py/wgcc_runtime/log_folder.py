"""Logs that are folders: lines of JSON, and the same numbers as events for TensorBoard."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wgcc_runtime.captured import Shown
from wgcc_runtime.captured_events import numbers_of, summary_of, values_of
from wgcc_runtime.event_files import PATTERN, EventFile, scalar
from wgcc_runtime.history import Log, Report
from wgcc_runtime.replace_file import make_folder
from wgcc_runtime.weights import cannot_write

if TYPE_CHECKING:
    from wgcc_runtime.model import Model

LINES = "log.jsonl"


def log_at(place: str | Path, step: int, watched: WatchedModel | None = None) -> Log:
    """A file of lines, or a folder if there is one of that name, or the name ends with a slash."""
    if str(place).endswith(("/", os.sep)) or os.path.isdir(place):
        return LogFolder(Path(place), step, watched)
    return Log(place, step)


class WatchedModel:
    """The numbers and captures of a model that a log has beside its reports."""

    def __init__(self, model: Model, entry: str) -> None:
        self._model, self._entry = model, entry
        # A live setting, such as a learning rate, is state of one float.
        self._numbers = [
            tensor
            for name, tensor in model.plan.tensors.items()
            if tensor.role == "state" and tensor.is_float and not tensor.shape and "/" not in name
        ]

    def numbers(self) -> dict[str, float]:
        arrays = self._model._read(self._numbers) if self._numbers else {}
        return {name: float(value) for name, value in arrays.items()}

    def captures(self) -> Mapping[str, Shown]:
        """Those of the entry, as its last step left them."""
        has_some = self._model.plan.entries[self._entry].captures
        return dict(self._model.captured.of(self._entry)) if has_some else {}


class LogFolder(Log):
    """A folder with `log.jsonl` and one event file for each run."""

    def __init__(self, folder: Path, step: int, watched: WatchedModel | None) -> None:
        self._folder, self._watched = folder, watched
        with self._failures():
            make_folder(folder)
        super().__init__(folder / LINES, step)
        # Seconds of a resumed training count on.
        self._started = time.monotonic() - _seconds(self._last.get("seconds"))
        with self._failures():
            self._events = EventFile(folder, self._next_number(step))
            self._events.begin_after(step)

    def back_to(self, step: int) -> None:
        super().back_to(step)
        with self._failures():
            self._events.begin_after(step)

    def write(self, report: Report) -> None:
        numbers = self._watched.numbers() if self._watched else {}
        seconds = round(time.monotonic() - self._started, 3)
        live = {f"state_{name}": number for name, number in numbers.items()}
        captured = self._watched.captures() if self._watched else {}
        stats = {name: summary_of(shown) for name, shown in captured.items()}
        facts = {name: numbers_of(summary) for name, summary in stats.items()}
        inside = {"captured": facts} if facts else {}
        self._write_line({**report.as_json(), **live, "seconds": seconds, **inside})
        tags = {
            **{f"train/{name}": number for name, number in report.outputs.items()},
            **{f"eval/{name}": number for name, number in report.eval.items()},
            **{f"state/{name}": number for name, number in numbers.items()},
            "time/ms": report.ms,
        }
        with self._failures():
            values = [scalar(tag, number) for tag, number in tags.items()]
            for name, shown in captured.items():
                values += values_of(name, shown, stats[name])
            self._events.write(report.step, values)

    def close(self) -> None:
        super().close()
        with contextlib.suppress(OSError):
            self._events.close()

    def _next_number(self, step: int) -> int:
        """Events of earlier runs stay if this one continues them."""
        files = sorted(self._folder.glob(PATTERN))
        if not step:
            for file in files:
                file.unlink()
            return 1
        numbers = [int(name) for file in files if (name := file.suffixes[-2][1:]).isdigit()]
        return max(numbers, default=0) + 1

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise cannot_write("log", self._folder, error) from None


def _seconds(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0
