"""literal(; values, shape, dtype): the numbers of a tensor, as a program lists them."""

from __future__ import annotations

from math import prod

from wgcc.ir.graph import DTYPES, Node, TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_sizes
from wgcc.ops.dtypes import check_number, literal, numpy_dtype
from wgcc.ops.registry import Op, Sample, ShapeError, Source

Values = tuple[float | int | bool, ...]
# Longer ones become constants of the bundle: a load is cheaper than so many comparisons.
MOST_COMPARED = 8


def infer(values: Values, shape: tuple[int, ...], dtype: str) -> TensorType:
    if dtype not in DTYPES:
        raise ShapeError(f"there is no dtype {dtype} (there are {', '.join(DTYPES)})")
    check_sizes("literal", shape)
    if len(values) != prod(shape):
        raise ShapeError(f"literal: {len(values)} numbers do not fill {list(shape)}")
    for value in values:
        check_number(value, dtype)
    return TensorType(tuple(shape), dtype)


def reference(values: Values, shape: tuple[int, ...], dtype: str) -> Array:
    return np.asarray(values, numpy_dtype(dtype)).reshape(shape)


def wgsl(node: Node) -> str:
    first, *others = (literal(value, node.output.dtype) for value in node.attrs["values"])
    found = first
    for number, text in enumerate(others, 1):
        found = f"select({found}, {text}, {{i}} == {number}u)"
    return found


def is_short(node: Node) -> bool:
    return len(node.attrs["values"]) <= MOST_COMPARED


OPS = (
    Op(
        "literal",
        infer,
        reference,
        Source(wgsl, cheap=is_short),
        samples=[
            Sample([], {"values": values, "shape": shape, "dtype": dtype})
            for values, shape, dtype in (
                ((0.5,), (1,), "f32"),
                ((1.0, -2.5, 1e-30, 4.0), (2, 2), "f32"),
                (tuple(0.25 * number for number in range(-15, 15)), (2, 3, 5), "f32"),
                ((3, -1, 2), (3,), "i32"),
                ((-128, 127), (2, 1), "i8"),
                ((True, False, True), (3,), "bool"),
            )
        ],
    ),
)
