"""cast(x; dtype): the same numbers in another dtype. Floats lose their fraction to integers."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.dtypes import INTEGERS, SIGNED
from wgcc.ir.graph import DTYPES, FLOATS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.dtypes import numpy_dtype, wgsl_type
from wgcc.ops.registry import Op, Pointwise, Sample, ShapeError


def infer(x: TensorType, dtype: str) -> TensorType:
    if dtype not in DTYPES:
        raise ShapeError(f"there is no dtype {dtype} (there are {', '.join(DTYPES)})")
    return TensorType(x.shape, dtype)


def reference(x: Array, dtype: str) -> Array:
    # A float64 evaluation stays in float64.
    if dtype == "f32" and x.dtype == np.float64:
        return x
    if x.dtype.kind == "f" and dtype in LIMITS:
        return _whole(x, dtype)
    return x.astype(numpy_dtype(dtype))


# What is beyond the ends of a type becomes the float that is next to them, as in WGSL.
_NATURAL = (0.0, 2.0**32 - 256)
_WHOLE = (-(2.0**31), 2.0**31 - 128)
LIMITS = {dtype: _WHOLE if dtype in SIGNED else _NATURAL for dtype in INTEGERS}


def _whole(x: Array, dtype: str) -> Array:
    """A byte keeps the last 8 bits of what i32 or u32 would be. What NaN becomes is undefined."""
    inside = np.clip(x.astype(np.float64), *LIMITS[dtype])
    return inside.astype(np.int64).astype(numpy_dtype(dtype))


def wgsl(node: Node) -> str:
    source, target = node.inputs[0].dtype, node.output.dtype
    if target == "bool":
        return {"f": "(!({0} == 0.0f))", "i": "({0} != 0i)", "u": "({0} != 0u)", "b": "{0}"}[
            source[0]
        ]
    if target in FLOATS:
        return "{0}" if source in FLOATS else "f32({0})"
    return f"{wgsl_type(target)}({{0}})"


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g in x's dtype; integers have no gradient
    (g,), source = gs, node.inputs[0].dtype
    if g is None or source not in FLOATS or node.output.dtype not in FLOATS:
        return [None]
    return [b.apply("cast", g, dtype=source)]


def _samples() -> list[Sample]:
    return [
        Sample(
            [TensorType((65,), a)], {"dtype": d}, 0.0, 9.0, (0, 9), differentiable=a == d == "f32"
        )
        for a in DTYPES
        for d in DTYPES
    ]


OPS = (Op("cast", infer, reference, Pointwise(wgsl), grad, _samples()),)
