"""const(; value, dtype): one number, as a scalar.

iota(; n, dtype): the numbers 0 … n-1.

not_finite(; value, dtype): infinity or NaN, as a scalar.

Not a `const`, because WGSL has no such literals and refuses constant expressions that give one.

literal(; values, shape, dtype): the numbers of a tensor, as a program lists them.

flat(x, …; words): tensors of one arena as one long vector with zeros between them.

The scheduler creates it where many tensors are read at once; it is a view, not a kernel.

pack(a, b, c, d): four elements of one byte each as a word, the first one lowest.

Kernels write the bytes that callers see as whole words, so that no two threads write to one word.

copy(x): the same elements stored separately, where the scheduler needs that.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, isnan, prod

from wgcc.ir.dtypes import INTEGER_RANGES, INTEGERS, NARROW_INTEGERS, NUMBERS, PACKED
from wgcc.ir.graph import DTYPES, FLOATS, Builder, Node, TensorType, Value
from wgcc.ir.places import ALIGNMENT, round_up
from wgcc.lazy_numpy import Array, np
from wgcc.ops.elementwise import no_grad
from wgcc.ops.formula import samples_of
from wgcc.ops.registry import (
    FromIndex,
    Op,
    Pointwise,
    Sample,
    ShapeError,
    Special,
    check_dtype,
    check_number,
    check_same,
    check_sizes,
    literal,
    numpy_dtype,
    wgsl_type,
)


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
    expression = first
    for number, text in enumerate(others, 1):
        expression = f"select({expression}, {text}, {{i}} == {number}u)"
    return expression


def is_short(node: Node) -> bool:
    return len(node.attrs["values"]) <= MOST_COMPARED


CONSTANTS_OPS = (
    Op(
        "const",
        infer_const,
        reference_const,
        FromIndex(wgsl_const),
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
        FromIndex(wgsl_iota),
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
        FromIndex(wgsl_not_finite, ("not_finite",)),
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
        FromIndex(wgsl_literal, cheap=is_short),
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


def infer_flat(*parts: TensorType, words: int) -> TensorType:
    return TensorType((words,), parts[0].dtype)


def reference_flat(*parts: Array, words: int) -> Array:
    flat, at = np.zeros(words, parts[0].dtype), 0
    for part in parts:
        flat[at : at + part.size] = part.reshape(-1)
        at += round_up(part.size, ALIGNMENT)
    return flat


# An element as the lowest byte of a u32, by its type in WGSL.
_BYTES = {"bool": "select(0u, 1u, {%d})", "i32": "(bitcast<u32>({%d}) & 255u)", "u32": "{%d}"}


def infer_pack(*parts: TensorType) -> TensorType:
    check_same("pack", *parts)
    check_dtype("pack", parts[0], PACKED)
    return TensorType(parts[0].shape, "u32")


def reference_pack(*parts: Array) -> Array:
    words = np.zeros(parts[0].shape, np.uint32)
    for number, part in enumerate(parts):
        words |= part.astype(np.uint8).astype(np.uint32) << np.uint32(8 * number)
    return words


def wgsl(node: Node) -> str:
    byte = _BYTES[wgsl_type(node.inputs[0].dtype)]
    first, *others = (byte % number for number in range(4))
    return " | ".join([first, *(f"({x} << {8 * i}u)" for i, x in enumerate(others, 1))])


def infer_copy(x: TensorType) -> TensorType:
    return x


def reference_copy(x: Array) -> Array:
    return np.asarray(x)


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g
    return list(gs)


STORAGE_OPS = (
    Op("flat", infer_flat, reference_flat, Special("flat")),
    Op("pack", infer_pack, reference_pack, Pointwise(wgsl), no_grad, samples_of(4, PACKED)),
    Op(
        "copy",
        infer_copy,
        reference_copy,
        Pointwise("{0}"),
        grad,
        [
            Sample([(65,)]),
            Sample([()]),
            Sample([TensorType((3, 5), "bool")], differentiable=False),
            Sample([TensorType((3, 5), PACKED[0])], differentiable=False),
        ],
        identity=True,
    ),
)

OPS = (*CONSTANTS_OPS, *STORAGE_OPS)
