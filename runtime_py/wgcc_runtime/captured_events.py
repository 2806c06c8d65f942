"""Captures in logs: numbers for a line, a histogram and a picture for TensorBoard."""

from __future__ import annotations

from math import isfinite

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.captured import Shown, Stats
from wgcc_runtime.event_files import histogram, picture
from wgcc_runtime.plan_parts import BINS

# The last two axes of a capture are a picture if both have 2 up to so many elements.
LARGEST_SIDE = 512
NUMBERS = ("mean", "deviation", "min", "max")


def summary_of(shown: Shown) -> Stats:
    """The statistics of a capture, counted here if the device did not."""
    if isinstance(shown, Stats):
        return shown
    values = np.asarray(shown, np.float64).ravel()
    finite = values[np.isfinite(values)]
    some = finite if finite.size else np.zeros(1)
    low, high = float(some.min()), float(some.max())
    counts, _ = np.histogram(finite, bins=BINS, range=(low, high if high > low else low + 1))
    nan = int(np.isnan(values).sum())
    return Stats(
        shown.shape, float(some.mean()), float(some.std()), low, high,
        int((values == 0).sum()), nan, values.size - finite.size - nan, counts,
    )  # fmt: skip


def numbers_of(stats: Stats) -> dict[str, float | None]:
    """JSON has no NaN: where nothing is finite, a number is None."""
    numbers = {name: getattr(stats, name) for name in NUMBERS}
    known = {name: value if isfinite(value) else None for name, value in numbers.items()}
    return {**known, "zeros": stats.zeros, "nan": stats.nan, "infinite": stats.infinite}


def values_of(name: str, shown: Shown, stats: Stats) -> list[bytes]:
    """The values of an event."""
    count = int(stats.histogram.sum())
    if not count or not all(isfinite(getattr(stats, number)) for number in NUMBERS):
        return []
    edges, counts = stats.edges, stats.histogram
    if stats.min == stats.max:
        # Bins need a width.
        edges, counts = np.array([stats.min - 0.5, stats.max + 0.5]), np.array([count])
    squares = count * (stats.deviation**2 + stats.mean**2)
    sums = {"sum": count * stats.mean, "squares": squares}
    values = [histogram(f"captured/{name}", counts, edges, sums)]
    if not isinstance(shown, Stats) and _is_picture(shown, stats):
        values.append(picture(f"captured/{name}", _pixels(shown, stats)))
    return values


def _is_picture(array: Array, stats: Stats) -> bool:
    sides = array.shape[-2:]
    fits = len(sides) == 2 and all(1 < side <= LARGEST_SIDE for side in sides)
    return fits and not stats.nan and not stats.infinite


def _pixels(array: Array, stats: Stats) -> Array:
    """The first of the pictures, from black (the least of all values) to white (the largest)."""
    first = array.reshape(-1, *array.shape[-2:])[0].astype(np.float64)
    width = stats.max - stats.min or 1.0
    pixels: Array = np.round(255 * (first - stats.min) / width).astype(np.uint8)
    return pixels
