"""Captured values as small pictures: a histogram of each, and a map of what has two axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.captured import Stats
from wgcc_runtime.plan_parts import BINS

if TYPE_CHECKING:
    from wgcc_runtime.model import Model

# More would not be looked at while they change; each is read from the device.
MOST_CAPTURES = 6
# Rows and columns of a map.
MAP_SIDE = 32


def capture_pictures(model: Model, entry: str) -> list[dict[str, Any]]:
    """The first captures of an entry, as its last call left them."""
    captured = model.captured.of(entry)
    names = list(captured)[:MOST_CAPTURES]
    return [{"name": name, **_picture(captured[name])} for name in names]


def _picture(value: Array | Stats) -> dict[str, Any]:
    if isinstance(value, Stats):
        counts = [int(count) for count in value.histogram]
        return {
            "shape": list(value.shape), "bins": counts, "low": value.min, "high": value.max,
            "mean": value.mean, "deviation": value.deviation, "nan": value.nan, "map": [],
        }  # fmt: skip
    numbers = np.asarray(value, dtype=np.float64)
    finite = numbers[np.isfinite(numbers)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    bins = np.histogram(finite, BINS, (low, high))[0] if finite.size else np.zeros(BINS)
    return {
        "shape": list(value.shape), "bins": [int(count) for count in bins],
        "low": low, "high": high,
        "mean": float(finite.mean()) if finite.size else 0.0,
        "deviation": float(finite.std()) if finite.size else 0.0,
        "nan": int(np.isnan(numbers).sum()), "map": _map(numbers, low, high),
    }  # fmt: skip


def _map(numbers: Array, low: float, high: float) -> list[list[int]]:
    """Bytes of the first matrix in an array; large ones are sampled."""
    if numbers.ndim < 2 or not numbers.size:
        return []
    matrix = numbers.reshape(-1, *numbers.shape[-2:])[0]
    rows, cols = (
        np.unique(np.linspace(0, n - 1, min(n, MAP_SIDE)).astype(int)) for n in matrix.shape
    )
    part = np.nan_to_num(matrix[np.ix_(rows, cols)], nan=low, posinf=high, neginf=low)
    shades = (part - low) / ((high - low) or 1.0) * 255
    return [[int(shade) for shade in row] for row in shades]
