"""const(; value, dtype): one number, as a scalar.

iota(; n, dtype): the numbers 0 … n-1.

not_finite(; value, dtype): infinity or NaN, as a scalar.

Not a `const`, because WGSL has no such literals and refuses constant expressions that give one.

literal(; values, shape, dtype): the numbers of a tensor, as a program lists them.
"""

from __future__ import annotations

from math import isfinite, isnan, prod

from wgcc.ir.dtypes import INTEGER_RANGES, INTEGERS, NARROW_INTEGERS, NUMBERS
from wgcc.ir.graph import DTYPES, FLOATS, Node, TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype, check_sizes
from wgcc.ops.dtypes import check_number, literal, numpy_dtype
from wgcc.ops.registry import Op, Sample, ShapeError, Source


def infer_const(value: float | int | bool, dtype: str) -> TensorType:
    if dtype not in DTYPES:
        raise ShapeError(f"there is no dtype {dtype} (there are {', '.join(DTYPES)})")
    check_number(value, dtype)
    return TensorType((), dtype)


def reference_const(value: float | int | bool, dtype: str) -> Array:
    return np.asarray(value, numpy_dtype(dtype))


def wgsl_const(node: Node) -> str:
    return literal(node.attrs["value"], node.output.dtype)


def infer_iota(n: int, dtype: str) -> TensorType:
    check_sizes("iota", (n,))
    result = TensorType((n,), dtype)
    check_dtype("iota", result, NUMBERS)
    return result


def reference_iota(n: int, dtype: str) -> Array:
    return np.arange(n).astype(numpy_dtype(dtype))


def wgsl_iota(node: Node) -> str:
    return {"f": "f32({i})", "i": "i32({i})", "u": "{i}"}[node.output.dtype[0]]


INFINITY, MINUS_INFINITY, NAN = "0x7f800000u", "0xff800000u", "0x7fc00000u"


def infer_not_finite(value: float, dtype: str) -> TensorType:
    if dtype not in FLOATS or isfinite(value):
        raise ShapeError(f"{value} is a finite {dtype}: that is a constant")
    return TensorType((), dtype)


def reference_not_finite(value: float, dtype: str) -> Array:
    return np.asarray(value, numpy_dtype(dtype))


def wgsl_not_finite(node: Node) -> str:
    value = node.attrs["value"]
    bits = NAN if isnan(value) else INFINITY if value > 0 else MINUS_INFINITY
    return f"wg_not_finite({bits})"


Values = tuple[float | int | bool, ...]
# Longer ones become constants of the bundle: a load is cheaper than so many comparisons.
MOST_COMPARED = 8


def infer_literal(values: Values, shape: tuple[int, ...], dtype: str) -> TensorType:
    if dtype not in DTYPES:
        raise ShapeError(f"there is no dtype {dtype} (there are {', '.join(DTYPES)})")
    check_sizes("literal", shape)
    if len(values) != prod(shape):
        raise ShapeError(f"literal: {len(values)} numbers do not fill {list(shape)}")
    for value in values:
        check_number(value, dtype)
    return TensorType(tuple(shape), dtype)


def reference_literal(values: Values, shape: tuple[int, ...], dtype: str) -> Array:
    return np.asarray(values, numpy_dtype(dtype)).reshape(shape)


def wgsl_literal(node: Node) -> str:
    first, *others = (literal(value, node.output.dtype) for value in node.attrs["values"])
    found = first
    for number, text in enumerate(others, 1):
        found = f"select({found}, {text}, {{i}} == {number}u)"
    return found


def is_short(node: Node) -> bool:
    return len(node.attrs["values"]) <= MOST_COMPARED


OPS = (
    Op(
        "const",
        infer_const,
        reference_const,
        Source(wgsl_const),
        samples=[
            Sample([], {"value": -0.1, "dtype": "f32"}),
            Sample([], {"value": 1e-30, "dtype": "f32"}),
            Sample([], {"value": 3, "dtype": "f32"}),
            Sample([], {"value": True, "dtype": "bool"}),
            *(
                Sample([], {"value": end, "dtype": dtype})
                for dtype in INTEGERS
                for end in INTEGER_RANGES[dtype]
            ),
        ],
        never_stored=True,
    ),
    Op(
        "iota",
        infer_iota,
        reference_iota,
        Source(wgsl_iota),
        samples=[
            Sample([], {"n": n, "dtype": dtype})
            for n in (1, 63, 65, 200)
            for dtype in ("f32", *INTEGERS)
        ],
        never_stored=True,
    ),
    Op(
        "not_finite",
        infer_not_finite,
        reference_not_finite,
        Source(wgsl_not_finite, ("not_finite",)),
        samples=[
            Sample([], {"value": value, "dtype": dtype}, differentiable=False)
            for value in (float("inf"), float("-inf"), float("nan"))
            for dtype in FLOATS
        ],
    ),
    Op(
        "literal",
        infer_literal,
        reference_literal,
        Source(wgsl_literal, cheap=is_short),
        samples=[
            Sample([], {"values": values, "shape": shape, "dtype": dtype})
            for values, shape, dtype in (
                ((0.5,), (1,), "f32"),
                ((1.0, -2.5, 1e-30, 4.0), (2, 2), "f32"),
                (tuple(0.25 * number for number in range(-15, 15)), (2, 3, 5), "f32"),
                ((3, -1, 2), (3,), "i32"),
                *((INTEGER_RANGES[dtype], (2, 1), dtype) for dtype in NARROW_INTEGERS),
                ((True, False, True), (3,), "bool"),
            )
        ],
    ),
)
