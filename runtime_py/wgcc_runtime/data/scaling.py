"""Columns to mean 0 and deviation 1. Sums are made in the order of rows, as in JavaScript."""

from __future__ import annotations

from math import sqrt

import numpy as np

from wgcc_runtime.arrays import Array


def total(values: Array) -> float:
    """The sum, added one after the other: `np.sum` and `sum` add in other orders."""
    return float(np.cumsum(values, dtype=np.float64)[-1])


def mean_of(values: Array) -> float:
    return total(values) / len(values)


def deviation_of(values: Array, mean: float) -> float:
    """Of the population."""
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
