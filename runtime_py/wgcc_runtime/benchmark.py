"""Milliseconds per call of an entry, as a training loop would see them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from wgcc_runtime.batches import Batch, check_batch
from wgcc_runtime.drawn import drawn_input
from wgcc_runtime.model import Model
from wgcc_runtime.plan import Entry, Range, Tensor

LIMITS = {"bool": (0, 1), "u8": (0, 255)}


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds per step, over submits of several steps each; `first_ms` includes compiling."""

    entry: str
    steps: int
    first_ms: float
    median_ms: float
    best_ms: float


def benchmark(model: Model, name: str, seconds: float = 2.0) -> Timing:
    """Runs an entry on random inputs for about that long. A training entry changes the model."""
    entry = model.entry(name)
    batch = sample_inputs(model, entry)
    runner = model.runner(name, [])
    first = _timed(runner, [batch])
    second = _timed(runner, [batch])
    per_submit = max(1, min(32, int(0.1 / max(second, 1e-6))))
    times: list[float] = []
    ends = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < ends:
        times.append(_timed(runner, [batch] * per_submit) / per_submit)
    ms = [1000 * seconds for seconds in times]
    return Timing(name, len(times) * per_submit, 1000 * first, median(ms), min(ms))


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
    low, high = LIMITS.get(tensor.dtype, (0, 1))
    if allowed:
        low, high = allowed.low, allowed.high
    return {"kind": "integers", "low": low, "high": high}


def _timed(runner: Any, batches: list[Batch]) -> float:
    started = time.perf_counter()
    runner.run(batches)
    return time.perf_counter() - started
