"""scan(a, b; axis, reverse): the recurrence h[t] = a[t] h[t-1] + b[t] along an axis, from zero.

`reverse` runs from the end: h[t] = a[t] h[t+1] + b[t]. cumsum(x; axis) is the scan with a = 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_axis, check_dtype, check_same
from wgcc.ops.formula import Term
from wgcc.ops.registry import Expand, Op, Sample, Special
from wgcc.ops.separate import other_axes


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
    a_next = shifted(a, axis, -forward)
    db = a_next.apply("scan", Term(b, g), axis=axis, reverse=not reverse)
    return [(db * shifted(h, axis, forward)).value, db.value]


def shifted(x: Term, axis: int, by: int) -> Term:
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
    return x.like(1).apply("scan", x, axis=axis, reverse=reverse)


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
        lambda x, axis: np.cumsum(x, axis, dtype=x.dtype),
        Expand(expand_cumsum),
        grad_cumsum,
        [Sample([shape], {"axis": axis}) for shape, axis in _CASES],
    ),
)
