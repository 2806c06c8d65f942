"""Random inputs of the self-test; compiler and runtimes draw the same from seed, name and step."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from wgcc_runtime.threefry import random_words


def drawn_input(
    spec: Mapping[str, Any], name: str, shape: tuple[int, ...], seed: int, step: int
) -> npt.NDArray[Any]:
    """`name` is `ENTRY/NAME`; `spec` gives the kind and the bounds, both included."""
    words = random_words(seed, name, prod(shape), step)
    if spec["kind"] == "integers":
        span = spec["high"] - spec["low"] + 1
        integers: npt.NDArray[Any] = spec["low"] + words.astype(np.int64) % span
        return integers.reshape(shape)
    unit = (words >> np.uint32(8)).astype(np.float64) * 2.0**-24
    scaled: npt.NDArray[Any] = spec["low"] + unit * (spec["high"] - spec["low"])
    return scaled.astype(np.float32).reshape(shape)
