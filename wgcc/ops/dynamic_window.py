"""window(x, at; axis, size): `size` elements of an axis from a start known only at run time
(dynamic_slice in other compilers).

window_update(base, update, at; axis) writes such a part. A start out of range is reported by the
entry that uses it; then the nearest part that fits is read, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wgcc.ir.graph import FLOATS, INTEGERS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_axis, check_scalar, without_axes
from wgcc.ops.formula import Term
from wgcc.ops.registry import Indirect, Op, Sample, ShapeError, SharedAxis, Special


def infer(x: TensorType, at: TensorType, axis: int, size: int) -> TensorType:
    check_axis("window", x, axis)
    check_scalar("window", "the start", at, INTEGERS)
    if not 1 <= size <= x.shape[axis]:
        raise ShapeError(f"window: {size} places do not fit axis {axis} of {x}")
    return TensorType((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)


def infer_update(base: TensorType, update: TensorType, at: TensorType, axis: int) -> TensorType:
    check_axis("window_update", base, axis)
    check_scalar("window_update", "the start", at, INTEGERS)
    same = without_axes(base.shape, (axis,)) == without_axes(update.shape, (axis,))
    fits = base.rank == update.rank and update.shape[axis] <= base.shape[axis]
    if not (same and fits and base.dtype == update.dtype):
        raise ShapeError(f"window_update: {update} is no part of {base} along axis {axis}")
    return base


def reference(x: Array, at: Array, axis: int, size: int) -> Array:
    return np.asarray(x[_place(x, at, axis, size)])


def reference_update(base: Array, update: Array, at: Array, axis: int) -> Array:
    result: Array = base.copy()
    if 0 <= int(at) <= base.shape[axis] - update.shape[axis]:
        result[_place(base, at, axis, update.shape[axis])] = update
    return result


def _place(x: Array, at: Array, axis: int, size: int) -> tuple[slice, ...]:
    start = min(max(int(at), 0), x.shape[axis] - size)
    return (*[slice(None)] * axis, slice(start, start + size))


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g in the window, 0 elsewhere
    (g,), (x, at) = gs, node.inputs
    if g is None or x.dtype not in FLOATS:
        return [None, None]
    zeros = Term(b, x).like(0).value
    return [b.apply("window_update", zeros, g, at, axis=node.attrs["axis"]), None]


def grad_update(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dbase = g with zeros in the window, dupdate = the window of g
    (g,), (_, update, at), axis = gs, node.inputs, node.attrs["axis"]
    if g is None or update.dtype not in FLOATS:
        return [None, None, None]
    zeros = Term(b, update).like(0).value
    outside = b.apply("window_update", g, zeros, at, axis=axis)
    return [outside, b.apply("window", g, at, axis=axis, size=update.shape[axis]), None]


def at(node: Node, index: tuple[Any, ...]) -> tuple[Any, ...]:
    return ()


def limit(node: Node) -> int:
    return node.inputs[0].shape[node.attrs["axis"]] - int(node.attrs["size"])


def index(node: Node, position: tuple[Any, ...], found: Any) -> tuple[Any, ...]:
    axis = node.attrs["axis"]
    return (*position[:axis], position[axis] + found, *position[axis + 1 :])


def separate(node: Node) -> list[SharedAxis]:
    """All tensors but the last input have the same axes."""
    tensors, rank = len(node.inputs) - 1, node.output.type.rank
    others = (k for k in range(rank) if k != node.attrs["axis"])
    return [((*[k] * tensors, None), (k,)) for k in others]


_START = TensorType((), "i32")
# shape, axis, size of the window, start (some beyond the ends)
_CASES: tuple[tuple[tuple[int, ...], int, int, int], ...] = (
    ((9,), 0, 4, 2),
    ((65,), 0, 64, 5),
    ((65,), 0, 64, 1),
    ((5, 7), 1, 3, -4),
    ((5, 7), 0, 5, 0),
    ((2, 63, 3), 1, 8, 11),
    ((257, 2), 0, 1, 256),
)


def _samples(updates: bool) -> list[Sample]:
    """A call with a start out of range is undone, so it has no gradient."""
    found = []
    for shape, axis, size, start in _CASES:
        part = (*shape[:axis], size, *shape[axis + 1 :])
        inputs: list[Any] = [shape, part, _START] if updates else [shape, _START]
        attrs = {"axis": axis} if updates else {"axis": axis, "size": size}
        fits = 0 <= start <= shape[axis] - size
        found.append(Sample(inputs, attrs, integers=(start, start), differentiable=fits))
    return found


OPS = (
    Op(
        "window",
        infer,
        reference,
        Indirect(at, limit, index),
        grad,
        _samples(updates=False),
        never_stored=True,
        separate=separate,
    ),
    Op(
        "window_update",
        infer_update,
        reference_update,
        Special("window_update"),
        grad_update,
        _samples(updates=True),
        separate=separate,
    ),
)
