"""slice(x; starts, sizes, steps): part of x. unslice(x; shape, starts, steps): x among zeros.

concat(a, b, …; axis): the inputs one after another along an axis.

window(x, at; axis, size): `size` elements of an axis from a start known only at run time
(dynamic_slice in other compilers).

window_update(base, update, at; axis) writes such a part. A start out of range is reported by the
entry that uses it; then the nearest part that fits is read, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wgcc.ir.graph import FLOATS, INTEGERS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.registry import (
    Indirect,
    Join,
    Op,
    Sample,
    ShapeError,
    SharedAxis,
    Special,
    View,
    check_axis,
    check_scalar,
    check_sizes,
    without_axes,
)

Axes = tuple[int, ...]


def infer(x: TensorType, starts: Axes, sizes: Axes, steps: Axes) -> TensorType:
    check_sizes("slice", sizes)
    _check_place("slice", x.shape, sizes, starts, steps)
    return TensorType(tuple(sizes), x.dtype)


def infer_unslice(x: TensorType, shape: Axes, starts: Axes, steps: Axes) -> TensorType:
    check_sizes("unslice", shape)
    _check_place("unslice", shape, x.shape, starts, steps)
    return TensorType(tuple(shape), x.dtype)


def _check_place(op: str, whole: Axes, part: Axes, starts: Axes, steps: Axes) -> None:
    if not len(whole) == len(part) == len(starts) == len(steps):
        raise ShapeError(f"{op}: {list(whole)} needs one start, size and step for each axis")
    for axis, (size, count, start, step) in enumerate(zip(whole, part, starts, steps, strict=True)):
        last = start + (count - 1) * step
        if step < 1 or start < 0 or last >= size:
            raise ShapeError(
                f"{op}: {count} elements from {start} in steps of {step} "
                f"leave axis {axis} of size {size}"
            )


def reference(x: Array, starts: Axes, sizes: Axes, steps: Axes) -> Array:
    return x[_slices(sizes, starts, steps)]


def reference_unslice(x: Array, shape: Axes, starts: Axes, steps: Axes) -> Array:
    whole = np.zeros(shape, x.dtype)
    whole[_slices(x.shape, starts, steps)] = x
    return whole


def _slices(sizes: Axes, starts: Axes, steps: Axes) -> tuple[slice, ...]:
    places = zip(starts, sizes, steps, strict=True)
    return tuple(slice(at, at + (n - 1) * by + 1, by) for at, n, by in places)


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g among zeros
    (g,), attrs = gs, node.attrs
    if g is None:
        return [None]
    shape = node.inputs[0].shape
    return [b.apply("unslice", g, shape=shape, starts=attrs["starts"], steps=attrs["steps"])]


def grad_unslice(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = the slice of g where x is
    (g,), attrs = gs, node.attrs
    if g is None:
        return [None]
    sizes = node.inputs[0].shape
    return [b.apply("slice", g, starts=attrs["starts"], sizes=sizes, steps=attrs["steps"])]


def index(node: Node, position: tuple[Any, ...]) -> tuple[Any, ...]:
    places = zip(position, node.attrs["starts"], node.attrs["steps"], strict=True)
    return tuple(at * step + start if step > 1 else at + start for at, start, step in places)


def index_unslice(node: Node, position: tuple[Any, ...]) -> tuple[Any, ...]:
    places = zip(position, node.attrs["starts"], node.attrs["steps"], strict=True)
    return tuple((at - start) // step if step > 1 else at - start for at, start, step in places)


def inside(node: Node, position: tuple[Any, ...]) -> list[tuple[int, Any, int]]:
    conditions: list[tuple[int, Any, int]] = []
    shape, part = node.output.shape, node.inputs[0].shape
    for axis, (at, start, step) in enumerate(
        zip(position, node.attrs["starts"], node.attrs["steps"], strict=True)
    ):
        end = start + (part[axis] - 1) * step + 1
        if start > 0 or end < shape[axis]:
            conditions.append((start, at, end))
        if step > 1 and part[axis] > 1:
            # The sum keeps the dividend from being negative.
            conditions.append((0, (at + (-start) % step) % step, 1))
    return conditions


_CASES: tuple[tuple[Axes, Axes, Axes, Axes], ...] = (
    ((5,), (1,), (3,), (1,)),
    ((65,), (0,), (64,), (1,)),
    ((257,), (3,), (64,), (4,)),
    ((3, 7), (1, 2), (2, 3), (1, 2)),
    ((3, 7), (2, 0), (1, 7), (1, 1)),
    ((2, 5, 3), (0, 4, 1), (2, 1, 2), (1, 1, 1)),
    ((2, 3, 4, 5), (0, 1, 0, 1), (1, 2, 2, 2), (1, 1, 3, 3)),
    ((), (), (), ()),
)


def infer_concat(*parts: TensorType, axis: int) -> TensorType:
    if not parts:
        raise ShapeError("concat needs at least one tensor")
    first = parts[0]
    check_axis("concat", first, axis)
    for part in parts[1:]:
        same = without_axes(part.shape, (axis,)) == without_axes(first.shape, (axis,))
        if part.rank != first.rank or part.dtype != first.dtype or not same:
            raise ShapeError(f"concat along axis {axis}: {first} and {part} differ elsewhere")
    shape = list(first.shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    return TensorType(tuple(shape), first.dtype)


def reference_concat(*parts: Array, axis: int) -> Array:
    return np.concatenate(parts, axis)


def grad_concat(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # each input's gradient is its own part of g
    (g,), axis = gs, node.attrs["axis"]
    if g is None:
        return [None] * len(node.inputs)
    gradients: list[Value | None] = []
    at = 0
    for part in node.inputs:
        starts = tuple(at if k == axis else 0 for k in range(g.type.rank))
        steps = (1,) * g.type.rank
        gradients.append(b.apply("slice", g, starts=starts, sizes=part.shape, steps=steps))
        at += part.shape[axis]
    return gradients


SLICE_OPS = (
    Op(
        "slice",
        infer,
        reference,
        View(index),
        grad,
        [
            Sample([whole], {"starts": starts, "sizes": sizes, "steps": steps})
            for whole, starts, sizes, steps in _CASES
        ],
        never_stored=True,
    ),
    Op(
        "unslice",
        infer_unslice,
        reference_unslice,
        View(index_unslice, inside),
        grad_unslice,
        [
            Sample([sizes], {"shape": whole, "starts": starts, "steps": steps})
            for whole, starts, sizes, steps in _CASES
        ],
    ),
    Op(
        "concat",
        infer_concat,
        reference_concat,
        Join(),
        grad_concat,
        [
            Sample([(1,), (64,)], {"axis": 0}),
            Sample([(63,)], {"axis": 0}),
            Sample([(2, 3), (2, 1), (2, 5)], {"axis": 1}),
            Sample([(3, 7), (1, 7)], {"axis": 0}),
            Sample([(2, 3, 4, 5), (2, 3, 2, 5)], {"axis": 2}),
            Sample(
                [TensorType((3,), "i32"), TensorType((2,), "i32")],
                {"axis": 0},
                differentiable=False,
            ),
        ],
    ),
)


def infer_dynamic_window(x: TensorType, at: TensorType, axis: int, size: int) -> TensorType:
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


def reference_dynamic_window(x: Array, at: Array, axis: int, size: int) -> Array:
    return np.asarray(x[_place(x, at, axis, size)])


def reference_update(base: Array, update: Array, at: Array, axis: int) -> Array:
    result: Array = base.copy()
    if 0 <= int(at) <= base.shape[axis] - update.shape[axis]:
        result[_place(base, at, axis, update.shape[axis])] = update
    return result


def _place(x: Array, at: Array, axis: int, size: int) -> tuple[slice, ...]:
    start = min(max(int(at), 0), x.shape[axis] - size)
    return (*[slice(None)] * axis, slice(start, start + size))


def grad_dynamic_window(
    b: Builder, node: Node, gs: Sequence[Value | None]
) -> Sequence[Value | None]:
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


def index_dynamic_window(
    node: Node, position: tuple[Any, ...], stored_start: Any
) -> tuple[Any, ...]:
    axis = node.attrs["axis"]
    return (*position[:axis], position[axis] + stored_start, *position[axis + 1 :])


def separate(node: Node) -> list[SharedAxis]:
    """All tensors but the last input have the same axes."""
    tensors, rank = len(node.inputs) - 1, node.output.type.rank
    others = (k for k in range(rank) if k != node.attrs["axis"])
    return [((*[k] * tensors, None), (k,)) for k in others]


_START = TensorType((), "i32")
# shape, axis, size of the window, start (some beyond the ends)
_CASES_DYNAMIC_WINDOW: tuple[tuple[tuple[int, ...], int, int, int], ...] = (
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
    samples = []
    for shape, axis, size, start in _CASES_DYNAMIC_WINDOW:
        part = (*shape[:axis], size, *shape[axis + 1 :])
        inputs: list[Any] = [shape, part, _START] if updates else [shape, _START]
        attrs = {"axis": axis} if updates else {"axis": axis, "size": size}
        fits = 0 <= start <= shape[axis] - size
        samples.append(Sample(inputs, attrs, integers=(start, start), differentiable=fits))
    return samples


DYNAMIC_WINDOW_OPS = (
    Op(
        "window",
        infer_dynamic_window,
        reference_dynamic_window,
        Indirect(at, limit, index_dynamic_window),
        grad_dynamic_window,
        _samples(updates=False),
        never_stored=True,
        separate=separate,
    ),
    Op(
        "window_update",
        infer_update,
        reference_update,
        Special("window_update", shares=True),
        grad_update,
        _samples(updates=True),
        separate=separate,
    ),
)

OPS = (*SLICE_OPS, *DYNAMIC_WINDOW_OPS)
