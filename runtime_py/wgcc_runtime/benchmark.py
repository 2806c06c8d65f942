"""Milliseconds per call of an entry, as training loops see them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from wgcc_runtime.arrays import INTEGER_RANGES, Batch, check_batch
from wgcc_runtime.drawn import drawn_input
from wgcc_runtime.errors import WgccError
from wgcc_runtime.model import Model
from wgcc_runtime.plan import BYTES, WORD, Entry, Range, Tensor

# Steps in one submit, when results are read only from time to time.
TOGETHER = 10
FEWEST = 3


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds per call. `first_ms` includes what the driver compiles at the first call.

    `median_ms` and `best_ms`: the scalar outputs are read after every call; `every_10_ms`: once in
    ten calls, which go to the GPU as one submit.
    """

    entry: str
    calls: int
    first_ms: float
    median_ms: float
    best_ms: float
    every_10_ms: float


class Stopwatch:
    """Times one entry of a model on random inputs. A training entry changes the model."""

    def __init__(self, model: Model, name: str) -> None:
        self._model = model
        self._entry = entry = model.entry(name)
        self._batch = sample_inputs(model, entry)
        watched = [key for key, t in entry.outputs.items() if t.is_float and t.bytes == WORD]
        self._launcher = model.runner(name, watched)
        self._first = self._seconds_of(1)
        self._single: list[float] = []
        self._together: list[float] = []

    def run(self, seconds: float) -> None:
        """Measures for about that long: half of it call by call, half of it ten at a time."""
        for times, count in ((self._single, 1), (self._together, TOGETHER)):
            ends = time.perf_counter() + seconds / 2
            fewest = len(times) + (FEWEST if count == 1 else 1)
            while len(times) < fewest or time.perf_counter() < ends:
                times.append(self._seconds_of(count) / count)

    def timing(self) -> Timing:
        calls = 1 + len(self._single) + TOGETHER * len(self._together)
        single, together = median(self._single), median(self._together)
        return Timing(self._entry.name, calls, self._first, single, min(self._single), together)

    def _seconds_of(self, count: int) -> float:
        try:
            return self._run(count)
        except WgccError as error:
            if error.code != "range":
                raise
            # The cache of a decoder is full: reset it, and time one call, which always fits.
            self._model.reset()
            return count * self._run(1)

    def _run(self, count: int) -> float:
        started = time.perf_counter()
        self._launcher.run([self._batch] * count)
        return 1000 * (time.perf_counter() - started)


def sample_inputs(model: Model, entry: Entry) -> Batch:
    """Inputs that the entry accepts: as the self-test draws them, else small random values."""
    test = model.plan.selftest.get("entries", {}).get(entry.name, {}).get("inputs", {})
    values = {
        name: drawn_input(
            test.get(name) or _draw(tensor, entry.ranges.get(name)),
            tensor.name,
            tensor.shape,
            seed=1,
            step=0,
        )
        for name, tensor in entry.inputs.items()
    }
    return check_batch(values, entry)


def _draw(tensor: Tensor, allowed: Range | None) -> dict[str, Any]:
    if tensor.is_float:
        return {"kind": "uniform", "low": -1.0, "high": 1.0}
    low, high = INTEGER_RANGES[tensor.dtype] if tensor.dtype in BYTES else (0, 1)
    if allowed:
        low, high = allowed.low, allowed.high
    return {"kind": "integers", "low": low, "high": high}
