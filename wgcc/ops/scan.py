"""scan(a, b; axis, reverse): the recurrence h[t] = a[t] h[t-1] + b[t] along an axis, from zero.

`reverse` runs from the end: h[t] = a[t] h[t+1] + b[t]. cumsum(x; axis) is the scan with a = 1; a
long one is summed in blocks, because the rounding errors of a million elements add up to 1 %.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.graph import FLOATS, Builder, Node, TensorType, Value
from wgcc.ir.places import ceil_div
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.registry import (
    Expand,
    Op,
    Sample,
    Special,
    check_axis,
    check_dtype,
    check_same,
    other_axes,
)

# Elements of a block of a cumulative sum: the relative error of a million equal numbers is 4e-7,
# and 1e-6 in blocks of 32.
BLOCK = 16
# Shorter rows are summed from one end to the other.
MOST_DIRECT = 32


def infer(a: TensorType, b: TensorType, axis: int, reverse: bool) -> TensorType:
    check_same("scan", a, b)
    check_dtype("scan", a, FLOATS)
    check_axis("scan", a, axis)
    return b


def reference(a: Array, b: Array, axis: int, reverse: bool) -> Array:
    a, h = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0).copy()
    before = 1 if reverse else -1
    times = range(len(h))
    for t in list(reversed(times) if reverse else times)[1:]:
        h[t] += a[t] * h[t + before]
    return np.moveaxis(h, 0, axis)


def effort(node: Node) -> int:
    return sum(value.type.size for value in node.inputs)


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # db[t] = g[t] + a[t+1] db[t+1], da[t] = db[t] h[t-1]  (t-1 and t+1 swapped when reversed)
    (g,), axis, reverse = gs, node.attrs["axis"], node.attrs["reverse"]
    if g is None:
        return [None, None]
    a, h = Term(b, node.inputs[0]), Term(b, node.output)
    forward = 1 if not reverse else -1
    a_next = shift(a, axis, -forward)
    db = a_next.apply("scan", Term(b, g), axis=axis, reverse=not reverse)
    return [(db * shift(h, axis, forward)).value, db.value]


def shift(x: Term, axis: int, by: int) -> Term:
    """x shifted by one along an axis (`by` = 1 or -1), filled with zero."""
    size, rank = x.shape[axis], len(x.shape)
    if size == 1:
        return x.like(0)
    next_ = tuple(1 if k == axis else 0 for k in range(rank))
    here, steps = (0,) * rank, (1,) * rank
    sizes = tuple(n - k for n, k in zip(x.shape, next_, strict=True))
    part = x.apply("slice", starts=here if by > 0 else next_, sizes=sizes, steps=steps)
    return part.apply("unslice", shape=x.shape, starts=next_ if by > 0 else here, steps=steps)


def infer_cumsum(x: TensorType, axis: int) -> TensorType:
    check_dtype("cumsum", x, FLOATS)
    check_axis("cumsum", x, axis)
    return x


def expand_cumsum(b: Builder, node: Node) -> Sequence[Value]:
    return [running_sum(Term(b, node.inputs[0]), node.attrs["axis"], reverse=False).value]


def grad_cumsum(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = the sum of g from here to the end
    (g,) = gs
    if g is None:
        return [None]
    return [running_sum(Term(b, g), node.attrs["axis"], reverse=True).value]


def running_sum(x: Term, axis: int, reverse: bool) -> Term:
    size = x.shape[axis]
    if size <= MOST_DIRECT:
        return x.like(1).apply("scan", x, axis=axis, reverse=reverse)
    # In f32: f16 would round the sum of each block.
    return _sum_blocks(x.cast("f32"), axis, reverse).cast(x.dtype)


def _sum_blocks(x: Term, axis: int, reverse: bool) -> Term:
    """The running sum inside each block, plus that of all blocks before it."""
    blocks = ceil_div(x.shape[axis], BLOCK)
    whole = tuple(blocks * BLOCK if k == axis else n for k, n in enumerate(x.shape))
    split = (*x.shape[:axis], blocks, BLOCK, *x.shape[axis + 1 :])
    # Zeros fill up the last block, or the first one of those that are summed from the end.
    starts = tuple(n - m for n, m in zip(whole, x.shape, strict=True))
    starts = starts if reverse else (0,) * len(whole)
    steps = (1,) * len(whole)
    filled = x if whole == x.shape else x.apply("unslice", shape=whole, starts=starts, steps=steps)
    inside = running_sum(filled.reshape(split), axis + 1, reverse)
    totals = _element(inside, axis + 1, 0 if reverse else BLOCK - 1)
    before = shift(running_sum(totals, axis, reverse), axis, -1 if reverse else 1)
    sums = (inside + before.spread((axis + 1,), split)).reshape(whole)
    if whole == x.shape:
        return sums
    return sums.apply("slice", starts=starts, sizes=x.shape, steps=steps)


def _element(x: Term, axis: int, place: int) -> Term:
    """One element along an axis, which disappears."""
    starts = tuple(place if k == axis else 0 for k in range(len(x.shape)))
    sizes = tuple(1 if k == axis else n for k, n in enumerate(x.shape))
    part = x.apply("slice", starts=starts, sizes=sizes, steps=(1,) * len(sizes))
    return part.reshape((*x.shape[:axis], *x.shape[axis + 1 :]))


def cumsum_array(x: Array, axis: int) -> Array:
    return np.cumsum(x, axis, dtype=np.float64).astype(x.dtype)


_CASES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((1,), 0),
    ((5,), 0),
    ((65,), 0),
    ((257,), 0),
    ((3, 7), 1),
    ((64, 3), 0),
    ((2, 11, 5), 1),
    ((2, 3, 4, 5), 3),
)

OPS = (
    Op(
        "scan",
        infer,
        reference,
        Special("scan"),
        grad,
        [
            Sample([shape, shape], {"axis": axis, "reverse": reverse}, -0.9, 0.9)
            for shape, axis in _CASES
            for reverse in (False, True)
        ],
        effort=effort,
        separate=other_axes,
    ),
    Op(
        "cumsum",
        infer_cumsum,
        cumsum_array,
        Expand(expand_cumsum),
        grad_cumsum,
        [Sample([shape], {"axis": axis}) for shape, axis in _CASES],
    ),
)
