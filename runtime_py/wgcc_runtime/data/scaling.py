"""Columns to mean 0 and deviation 1. Sums are made in the order of rows, as in JavaScript."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array


def total(values: Array) -> float:
    """The sum, added one after the other: `np.sum` and `sum` add in other orders."""
    return float(np.cumsum(values, dtype=np.float64)[-1])


def mean_of(values: Array) -> float:
    return total(values) / len(values)


def deviation_of(values: Array, mean: float) -> float:
    """Of the population; of equal values it is 0, whatever their mean was rounded to."""
    if values.min() == values.max():
        return 0.0
    return sqrt(total((values - mean) * (values - mean)) / len(values))


def needs_scaling(values: Array) -> bool:
    """Whether training would be slow or fail with the column as it is."""
    mean = mean_of(values)
    deviation = deviation_of(values, mean)
    return abs(mean) > 3 or deviation > 3 or deviation < 0.1


def scaled(values: Array, mean: Array, deviation: Array) -> Array:
    """Rows of numbers in float64; a deviation of 0 counts as 1."""
    return (np.asarray(values, np.float64) - mean) / np.where(deviation == 0, 1.0, deviation)


def unscaled(values: Array, mean: Array, deviation: Array) -> Array:
    return np.asarray(values, np.float64) * np.where(deviation == 0, 1.0, deviation) + mean


def scaled_anew(
    rows: Array, others: Array, spec: Mapping[str, Any]
) -> tuple[dict[str, Any], Array, Array]:
    """Scaled `rows` and `others`, scaled by mean and deviation of `rows` alone; and how."""
    old = np.array([deviation or 1.0 for deviation in spec["deviation"]])
    columns = rows.reshape(len(rows), -1).astype(np.float64)
    shift = [mean_of(column) for column in columns.T]
    found = [deviation_of(column, mean) for column, mean in zip(columns.T, shift, strict=True)]
    mean, deviation = np.array(spec["mean"]) + old * shift, old * found
    factor = old / np.where(deviation == 0, 1.0, deviation)

    def scaled_part(part: Array) -> Array:
        wide = part.reshape(len(part), -1).astype(np.float64)
        return ((wide - shift) * factor).astype(part.dtype).reshape(part.shape)

    more = {"mean": mean.tolist(), "deviation": deviation.tolist()}
    return {**spec, **more}, scaled_part(rows), scaled_part(others)
