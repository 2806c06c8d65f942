"""iota(; n, dtype): the numbers 0 … n-1."""

from __future__ import annotations

from wgcc.ir.dtypes import NUMBERS
from wgcc.ir.graph import Node, TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype, check_sizes
from wgcc.ops.dtypes import numpy_dtype
from wgcc.ops.registry import Op, Sample, Source


def infer(n: int, dtype: str) -> TensorType:
    check_sizes("iota", (n,))
    result = TensorType((n,), dtype)
    check_dtype("iota", result, NUMBERS)
    return result


def reference(n: int, dtype: str) -> Array:
    return np.arange(n).astype(numpy_dtype(dtype))


def wgsl(node: Node) -> str:
    return {"f": "f32({i})", "i": "i32({i})", "u": "{i}"}[node.output.dtype[0]]


OPS = (
    Op(
        "iota",
        infer,
        reference,
        Source(wgsl),
        samples=[
            Sample([], {"n": n, "dtype": dtype})
            for n in (1, 63, 65, 200)
            for dtype in ("f32", "i32", "u32", "i8", "u8")
        ],
        never_stored=True,
    ),
)
