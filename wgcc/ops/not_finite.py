"""not_finite(; value, dtype): infinity or NaN, as a scalar.

Not a `const`, because WGSL has no such literals and refuses constant expressions that give one.
"""

from __future__ import annotations

from math import isfinite, isnan

from wgcc.ir.graph import FLOATS, Node, TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.dtypes import numpy_dtype
from wgcc.ops.registry import Op, Sample, ShapeError, Source

INFINITY, MINUS_INFINITY, NAN = "0x7f800000u", "0xff800000u", "0x7fc00000u"


def infer(value: float, dtype: str) -> TensorType:
    if dtype not in FLOATS or isfinite(value):
        raise ShapeError(f"{value} is a finite {dtype}: that is a constant")
    return TensorType((), dtype)


def reference(value: float, dtype: str) -> Array:
    return np.asarray(value, numpy_dtype(dtype))


def wgsl(node: Node) -> str:
    value = node.attrs["value"]
    bits = NAN if isnan(value) else INFINITY if value > 0 else MINUS_INFINITY
    return f"wg_not_finite({bits})"


OPS = (
    Op(
        "not_finite",
        infer,
        reference,
        Source(wgsl, ("not_finite",)),
        samples=[
            Sample([], {"value": value, "dtype": dtype}, differentiable=False)
            for value in (float("inf"), float("-inf"), float("nan"))
            for dtype in FLOATS
        ],
    ),
)
