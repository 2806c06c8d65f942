"""Means over workers, added up in the order of ranks: as many workers give the same bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wgcc_runtime.arrays import Array


def mean(parts: Sequence[Array], weights: Sequence[float] | None = None) -> Array:
    """The mean of f32 arrays of equal shape, in f32; weighted means are computed in f64."""
    if weights is not None and len(set(weights)) > 1:
        return _weighted_mean(parts, weights)
    total = np.array(parts[0], np.float32)
    for part in parts[1:]:
        total += part
    if len(parts) > 1:
        total *= np.float32(1 / len(parts))
    return total


def _weighted_mean(parts: Sequence[Array], weights: Sequence[float]) -> Array:
    total = np.zeros(parts[0].shape, np.float64)
    for part, weight in zip(parts, weights, strict=True):
        if weight:
            total += part.astype(np.float64) * (weight / sum(weights))
    return total.astype(np.float32)


def cuts(length: int, parts: int) -> list[int]:
    """The `parts + 1` positions that cut an array into parts of about the same length."""
    return [length * i // parts for i in range(parts + 1)]
