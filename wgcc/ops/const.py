"""const(; value, dtype): one number, as a scalar."""

from __future__ import annotations

from wgcc.ir.graph import DTYPES, Node, TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.dtypes import check_number, literal, numpy_dtype
from wgcc.ops.registry import Op, Sample, ShapeError, Source


def infer(value: float | int | bool, dtype: str) -> TensorType:
    if dtype not in DTYPES:
        raise ShapeError(f"there is no dtype {dtype} (there are {', '.join(DTYPES)})")
    check_number(value, dtype)
    return TensorType((), dtype)


def reference(value: float | int | bool, dtype: str) -> Array:
    return np.asarray(value, numpy_dtype(dtype))


def wgsl(node: Node) -> str:
    return literal(node.attrs["value"], node.output.dtype)


OPS = (
    Op(
        "const",
        infer,
        reference,
        Source(wgsl),
        samples=[
            Sample([], {"value": -0.1, "dtype": "f32"}),
            Sample([], {"value": 1e-30, "dtype": "f32"}),
            Sample([], {"value": 3, "dtype": "f32"}),
            Sample([], {"value": -(2**31), "dtype": "i32"}),
            Sample([], {"value": 2**32 - 1, "dtype": "u32"}),
            Sample([], {"value": 255, "dtype": "u8"}),
            Sample([], {"value": -128, "dtype": "i8"}),
            Sample([], {"value": True, "dtype": "bool"}),
        ],
        never_stored=True,
    ),
)
