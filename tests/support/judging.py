"""Statistical tests with fixed bounds. Seeds are fixed, so a test passes always or never.

Bounds are such that a right generator fails one in ten thousand: whoever changes a seed may see it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# Of a standard normal variable, one in ten thousand is farther from 0.
SIGMAS = 3.89


def chi_square(counts: Array, expected: Array) -> float:
    """In standard deviations (Wilson and Hilferty): above SIGMAS, counts do not fit."""
    used = expected > 0
    assert not counts[~used].any(), "something impossible was drawn"
    value = float(((counts - expected)[used] ** 2 / expected[used]).sum())
    freedom = int(used.sum()) - 1
    if freedom == 0:
        return 0.0
    spread = 2 / (9 * freedom)
    return float(((value / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread))


def kolmogorov(sample: Array, distribution: Array) -> float:
    """Largest distance of the sample's distribution from the true one, times √n: at most 2.23.

    `distribution` is the true one at the sorted sample.
    """
    n = len(sample)
    steps = np.arange(n + 1) / n
    return float(max((steps[1:] - distribution).max(), (distribution - steps[:-1]).max())) * n**0.5


KOLMOGOROV = 2.23


def correlation(a: Array, b: Array) -> float:
    """In standard deviations."""
    a, b = (x.astype(np.float64).ravel() for x in (a, b))
    centred = ((a - a.mean()) * (b - b.mean())).mean() / (a.std() * b.std())
    return float(abs(centred)) * len(a) ** 0.5


def normal_distribution(x: Array) -> Array:
    return np.array([0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x])
