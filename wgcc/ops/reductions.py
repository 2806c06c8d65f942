"""sum max min prod any all over attribute `axes` (ascending; they are removed from the shape).

`peak` is a faster max that may ignore NaN: for softmax, which subtracts it from the same numbers.

argmax(x; axis), argmin(x; axis): the index of the first extreme (as in numpy), as i32.

running_argmax(x; axis): the position of the greatest element up to each one, as i32.

Of equal elements the last, as in PyTorch's cummax. Once there is a NaN, it is the greatest.

sum_squares(g*n; n): the sum of the squares of all elements of n tensors, an f32 scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wgcc.ir.dtypes import INTEGER_RANGES, LARGEST_FLOAT, NARROW_INTEGERS, NUMBERS
from wgcc.ir.graph import FLOATS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.constants import INFINITY, MINUS_INFINITY
from wgcc.ops.formula import Term
from wgcc.ops.registry import (
    Op,
    Reduce,
    ReduceMany,
    Reference,
    Sample,
    ShapeError,
    SharedAxis,
    Special,
    check_axes,
    check_axis,
    check_dtype,
    literal,
    other_axes,
    without_axes,
)

# A byte would soon overflow; the user has to choose the dtype of the sum.
WIDE_NUMBERS = tuple(dtype for dtype in NUMBERS if dtype not in NARROW_INTEGERS)

# (g broadcast along the axes, x, y broadcast along the axes, axes) to dx
Derivative = Callable[[Term, Term, Term, tuple[int, ...]], Term]


def reduction(
    name: str,
    start: Callable[[str], str],
    combine: str,
    reference: Callable[[Array, tuple[int, ...]], Any],
    derivative: Derivative | None,
    dtypes: tuple[str, ...] = WIDE_NUMBERS,
) -> Op:
    lower = Reduce(start, lambda dtype: combine)
    return _reduction(name, lower, reference, derivative, dtypes)


def _extreme(name: str, first: str, reference: Callable[[Array, tuple[int, ...]], Any]) -> Op:
    """max or min. Floats keep NaN and start at an infinity, `first`; integers at their ends."""

    def start(dtype: str) -> str:
        if dtype in FLOATS:
            return f"wg_not_finite({first})"
        return literal(INTEGER_RANGES[dtype][0 if name == "max" else 1], dtype)

    lower = Reduce(
        start,
        lambda dtype: f"{'wg_' * (dtype in FLOATS)}{name}({{0}}, {{1}})",
        lambda dtype: (name, "not_finite") if dtype in FLOATS else (),
    )
    return _reduction(name, lower, reference, equal_derivative, NUMBERS)


def _reduction(
    name: str,
    lower: Reduce,
    reference: Callable[[Array, tuple[int, ...]], Any],
    derivative: Derivative | None,
    dtypes: tuple[str, ...],
) -> Op:
    def infer(x: TensorType, axes: tuple[int, ...]) -> TensorType:
        check_axes(name, x, axes)
        check_dtype(name, x, dtypes)
        return TensorType(without_axes(x.shape, axes), x.dtype)

    def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
        (g,), (x,), axes = gs, node.inputs, node.attrs["axes"]
        if g is None or derivative is None or x.dtype not in FLOATS:
            return [None]
        spread_g = Term(b, g).spread(axes, x.shape)
        spread_y = Term(b, node.output).spread(axes, x.shape)
        return [derivative(spread_g, Term(b, x), spread_y, axes).value]

    def in_numpy(x: Array, axes: tuple[int, ...]) -> Array:
        return np.asarray(reference(x, tuple(axes))).astype(x.dtype)

    return Op(name, infer, in_numpy, lower, grad, _samples(dtypes))


def equal_derivative(g: Term, x: Term, y: Term, axes: tuple[int, ...]) -> Term:
    # dx = g / (number of elements equal to y) where x = y, else 0
    ties = x.equals(y).cast(x.dtype)
    return ties * (g / ties.sum(axes).spread(axes, x.shape))


def prod_derivative(g: Term, x: Term, y: Term, axes: tuple[int, ...]) -> Term:
    # dx = g (product of the other elements)
    return g * x.apply("prod_others", axes=axes)


_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()),
    ((1,), (0,)),
    ((63,), (0,)),
    ((64,), (0,)),
    ((65,), (0,)),
    ((257,), (0,)),
    ((3, 5), (1,)),
    ((3, 5), (0,)),
    ((3, 5), (0, 1)),
    ((65, 63), (0,)),
    ((2, 3, 4, 5), (1, 3)),
    ((2, 3, 4, 5), (0, 1, 2)),
    ((7, 1, 3), (1,)),
)


def _samples(dtypes: tuple[str, ...]) -> list[Sample]:
    samples = [
        Sample([shape], {"axes": axes}, low=0.5, high=1.5)
        for shape, axes in _CASES
        if "f32" in dtypes
    ]
    for dtype in dtypes:
        if dtype not in FLOATS:
            bounds = (0, 1) if dtype == "bool" else (1, 3)
            for shape, axes in (((19,), (0,)), ((3, 5), (1,))):
                types = [TensorType(shape, dtype)]
                samples.append(Sample(types, {"axes": axes}, integers=bounds, differentiable=False))
    return samples


def no_grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    return [None]


def _infer(name: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, axis: int) -> TensorType:
        check_axis(name, x, axis)
        check_dtype(name, x, NUMBERS)
        return TensorType(without_axes(x.shape, (axis,)), "i32")

    return infer


def separate(node: Node) -> list[SharedAxis]:
    gone, rank = int(node.attrs["axis"]), node.inputs[0].type.rank
    return [((k,), (k - (k > gone),)) for k in range(rank) if k != gone]


def _op(name: str, reference: Reference) -> Op:
    shapes: list[tuple[tuple[int, ...], int]] = [
        ((1,), 0),
        ((65,), 0),
        ((257,), 0),
        ((3, 5), 1),
        ((63, 7), 0),
        ((2, 3, 4, 5), 2),
    ]
    samples = [Sample([shape], {"axis": axis}) for shape, axis in shapes]
    # Small integers have many ties.
    ties = Sample([TensorType((7, 19), "i32")], {"axis": 1}, differentiable=False)
    return Op(
        name,
        _infer(name),
        reference,
        Special("arg_reduce"),
        no_grad,
        [*samples, ties],
        separate=separate,
    )


def infer(x: TensorType, axis: int) -> TensorType:
    check_axis("running_argmax", x, axis)
    check_dtype("running_argmax", x, NUMBERS)
    return TensorType(x.shape, "i32")


def reference(x: Array, axis: int) -> Array:
    greatest = np.maximum.accumulate(x, axis)
    is_new = (x == greatest) | (x != x)
    along = np.arange(x.shape[axis]).reshape(-1, *[1] * (x.ndim - 1 - axis))
    return np.asarray(np.maximum.accumulate(np.where(is_new, along, 0), axis)).astype(np.int32)


_RUNNING_ARGMAX_CASES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((1,), 0),
    ((65,), 0),
    ((257,), 0),
    ((3, 7), 1),
    ((64, 3), 0),
    ((2, 3, 4, 5), 2),
)


def infer_sum_squares(*tensors: TensorType, n: int) -> TensorType:
    if n < 1 or len(tensors) != n:
        raise ShapeError(f"sum_squares takes {n} tensors, not {len(tensors)}")
    for tensor in tensors:
        check_dtype("sum_squares", tensor, ("f32",))
    return TensorType((), "f32")


def reference_sum_squares(*tensors: Array, n: int) -> Array:
    return np.asarray(sum(np.square(tensor).sum() for tensor in tensors))


def flat(b: Builder, x: Value) -> Value:
    return b.apply("sum", b.apply("square", x), axes=(0,))


OPS = (
    # dx = g along the axes
    reduction(
        "sum",
        lambda dtype: literal(0, dtype),
        "({0} + {1})",
        lambda x, axes: x.sum(
            axes, dtype=np.result_type(x.dtype, np.float32) if x.dtype.kind == "f" else None
        ),
        lambda g, x, y, axes: g,
    ),
    _extreme("max", MINUS_INFINITY, lambda x, axes: x.max(axes)),
    _extreme("min", INFINITY, lambda x, axes: x.min(axes)),
    reduction(
        "peak",
        lambda dtype: literal(-LARGEST_FLOAT, dtype),
        "max({0}, {1})",
        lambda x, axes: x.max(axes),
        equal_derivative,
        FLOATS,
    ),
    reduction(
        "prod",
        lambda dtype: literal(1, dtype),
        "({0} * {1})",
        lambda x, axes: x.prod(axes),
        prod_derivative,
    ),
    reduction(
        "any",
        lambda dtype: "false",
        "({0} || {1})",
        lambda x, axes: x.any(axes),
        None,
        ("bool",),
    ),
    reduction(
        "all",
        lambda dtype: "true",
        "({0} && {1})",
        lambda x, axes: x.all(axes),
        None,
        ("bool",),
    ),
    _op("argmax", lambda x, axis: np.asarray(np.argmax(x, axis), np.int32)),
    _op("argmin", lambda x, axis: np.asarray(np.argmin(x, axis), np.int32)),
    Op(
        "running_argmax",
        infer,
        reference,
        Special("running_best"),
        samples=[
            *(Sample([shape], {"axis": axis}) for shape, axis in _RUNNING_ARGMAX_CASES),
            # Small integers have many ties.
            *(
                Sample([TensorType((5, 19), dtype)], {"axis": 1}, integers=ends)
                for dtype, ends in (("i32", (-3, 3)), (NARROW_INTEGERS[-1], (0, 3)))
            ),
        ],
        stops_gradient=True,
        separate=other_axes,
    ),
    Op(
        "sum_squares",
        infer_sum_squares,
        reference_sum_squares,
        ReduceMany(flat, "add"),
        samples=[
            Sample([()], {"n": 1}, differentiable=False),
            Sample([(65,), (3, 5), (), (257,)], {"n": 4}, differentiable=False),
            Sample([(64, 63), (2, 3, 4, 5)], {"n": 2}, differentiable=False),
        ],
    ),
)
