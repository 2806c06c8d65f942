"""Functions of the language and what PyTorch computes: the same expression in both, and its inputs.

`record_pytorch.py` runs PyTorch once; `test_pytorch_functions.py` compares.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RECORDED = Path(__file__).parent / "pytorch_recorded.json"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """`wg` is an expression of inputs x, w, … of these `shapes`, `torch` the same in PyTorch.

    In PyTorch, `first(x)` moves channels to axis 1, `last(y)` back to the end, and `kernel(w)`
    gives [outputs, inputs, kernel …]. `at` are the numbers of x if they matter, `low` and `high`
    the range of those drawn otherwise.
    """

    wg: str
    torch: str
    shapes: tuple[tuple[int, ...], ...]
    at: tuple[float, ...] = ()
    low: float = -1.0
    high: float = 1.0

    @property
    def names(self) -> str:
        return "xwab"[: len(self.shapes)]


# Zero, the bends of hardswish, and numbers whose exponential is infinite.
POINTS = (0.0, -0.0, 3.0, -3.0, 200.0, -200.0, 0.3, -0.3, 1.5, -1.5, 20.0, -20.0)


def _points(wg: str, torch: str, *more: tuple[int, ...]) -> Case:
    return Case(wg, torch, ((len(POINTS),), *more), POINTS)


CASES = {
    "leaky_relu": _points("leaky_relu(x)", "F.leaky_relu(x)"),
    "leaky_relu_steep": _points("leaky_relu(x, slope = 0.3)", "F.leaky_relu(x, 0.3)"),
    "elu": _points("elu(x)", "F.elu(x)"),
    "elu_alpha": _points("elu(x, alpha = 0.7)", "F.elu(x, 0.7)"),
    "selu": _points("selu(x)", "F.selu(x)"),
    "hardswish": _points("hardswish(x)", "F.hardswish(x)"),
    "mish": _points("mish(x)", "F.mish(x)"),
    "softsign": _points("softsign(x)", "F.softsign(x)"),
    "prelu": _points("prelu(x, w)", "F.prelu(x, w)", (1,)),
    "prelu_features": Case("prelu(x, w)", "last(F.prelu(first(x), w))", ((2, 3, 5), (5,))),
    "glu": Case("glu(x)", "F.glu(x)", ((3, 8),)),
    "glu_axis": Case("glu(x, axis = 0)", "F.glu(x, 0)", ((4, 3),)),
}


def inputs(name: str) -> dict[str, Array]:
    """The same numbers in every run; exact in f32."""
    case, rng = CASES[name], np.random.default_rng(zlib.crc32(name.encode()))
    drawn = [rng.uniform(case.low, case.high, shape) for shape in case.shapes]
    if case.at:
        drawn[0] = np.array(case.at).reshape(case.shapes[0])
    rounded = [array.astype(np.float32).astype(np.float64) for array in drawn]
    return dict(zip(case.names, rounded, strict=True))


def recorded() -> dict[str, dict[str, Any]]:
    """For each case its result `y` and the gradients of `sum(y * y + y)`, by input."""
    found: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found
