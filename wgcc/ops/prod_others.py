"""prod_others(x; axes): for each element the product of the others along `axes`.

The gradient of `prod`. It is an op, because its meaning can be differentiated where elements are
zero, and the formula that computes it cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from wgcc.ir.graph import FLOATS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.registry import Expand, Op, Sample, check_axes, check_dtype

Axes = tuple[int, ...]
# A dual number: a value and its derivative.
Moving = tuple[Term, Term]


def infer(x: TensorType, axes: Axes) -> TensorType:
    check_axes("prod_others", x, axes)
    check_dtype("prod_others", x, FLOATS)
    return x


def reference(x: Array, axes: Axes) -> Array:
    axes = tuple(axes)
    zero = x == 0
    others = np.where(zero, 1, x).prod(axes, keepdims=True) / np.where(zero, 1, x)
    other_zeros = zero.sum(axes, keepdims=True) - zero
    return np.asarray(np.where(other_zeros > 0, 0, others), x.dtype)


def expand(b: Builder, node: Node) -> Sequence[Value]:
    """prod(x) / x, or the product of the nonzero elements at the only zero."""
    x, axes = Term(b, node.inputs[0]), node.attrs["axes"]
    zero = x.equals(0)
    nonzero = zero.choose(x.like(1), x)
    others = nonzero.apply("prod", axes=axes).spread(axes, x.shape) / nonzero
    zeros = zero.cast(x.dtype)
    other_zeros = zeros.sum(axes).spread(axes, x.shape) - zeros
    return [other_zeros.equals(0).choose(others, 0).value]


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx_j = sum over i ≠ j of g_i (product of all but i and j). This matrix is symmetric, so dx is
    # also the directional derivative of the products along g (forward mode).
    if gs[0] is None:
        return [None]
    x, axes = Term(b, node.inputs[0]), node.attrs["axes"]
    rows, g_rows = _as_rows(x, axes), _as_rows(Term(b, gs[0]), axes)
    length = rows.shape[1]
    if length == 1:
        return [x.like(0).value]
    _, change = _shift(_window((rows, g_rows), length - 1), 1)
    return [_back(change, x.shape, axes).value]


def _window(x: Moving, length: int) -> Moving:
    """For each position the product of `length` elements from there on, cyclically."""
    if length == 1:
        return x
    half = _window(x, length // 2)
    product = _times(half, _shift(half, length // 2))
    return _times(product, _shift(x, length - 1)) if length % 2 else product


def _times(a: Moving, c: Moving) -> Moving:
    return a[0] * c[0], a[1] * c[0] + a[0] * c[1]


def _shift(x: Moving, by: int) -> Moving:
    """The element `by` positions further on in each row, cyclically."""
    count, length = x[0].shape

    def part(term: Term, start: int, size: int) -> Term:
        return term.apply("slice", starts=(0, start), sizes=(count, size), steps=(1, 1))

    value, change = (
        part(term, by, length - by).apply("concat", part(term, 0, by), axis=1) for term in x
    )
    return value, change


def _order(shape: tuple[int, ...], axes: Axes) -> tuple[int, ...]:
    return (*(axis for axis in range(len(shape)) if axis not in axes), *axes)


def _as_rows(x: Term, axes: Axes) -> Term:
    """[results, elements of each]"""
    length = prod(x.shape[axis] for axis in axes)
    transposed = x.apply("transpose", perm=_order(x.shape, axes))
    return transposed.reshape((x.value.type.size // length, length))


def _back(rows: Term, shape: tuple[int, ...], axes: Axes) -> Term:
    order = _order(shape, axes)
    transposed = rows.reshape(tuple(shape[axis] for axis in order))
    return transposed.apply(
        "transpose", perm=tuple(order.index(axis) for axis in range(len(shape)))
    )


_CASES: tuple[tuple[tuple[int, ...], Axes], ...] = (
    ((1,), (0,)),
    ((2,), (0,)),
    ((65,), (0,)),
    ((3, 5), (1,)),
    ((3, 5), (0,)),
    ((2, 3, 4, 5), (1, 3)),
)

OPS = (
    Op(
        "prod_others",
        infer,
        reference,
        Expand(expand),
        grad,
        [Sample([shape], {"axes": axes}, low=0.5, high=1.5) for shape, axes in _CASES],
    ),
)
