"""flip(x; axes): the elements in reverse order along some axes.

roll(x; axis, shift): elements moved on by `shift` places; what leaves at the end enters in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_axes, check_axis
from wgcc.ops.registry import Op, Sample, ShapeError, View

Axes = tuple[int, ...]


def infer(x: TensorType, axes: Axes) -> TensorType:
    check_axes("flip", x, axes)
    return x


def reference(x: Array, axes: Axes) -> Array:
    return np.flip(x, tuple(axes))


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g in reverse order
    (g,) = gs
    return [None if g is None else b.apply("flip", g, axes=node.attrs["axes"])]


def index(node: Node, position: tuple[Any, ...]) -> tuple[Any, ...]:
    shape, axes = node.output.shape, node.attrs["axes"]
    return tuple(
        at * -1 + (shape[axis] - 1) if axis in axes else at for axis, at in enumerate(position)
    )


def infer_roll(x: TensorType, axis: int, shift: int) -> TensorType:
    check_axis("roll", x, axis)
    if not 0 < shift < x.shape[axis]:
        raise ShapeError(f"roll: a shift of axis {axis} of {x} is from 1 to its size - 1")
    return x


def reference_roll(x: Array, axis: int, shift: int) -> Array:
    return np.roll(x, shift, axis)


def grad_roll(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g, moved back
    (g,), axis = gs, node.attrs["axis"]
    if g is None:
        return [None]
    return [b.apply("roll", g, axis=axis, shift=g.shape[axis] - node.attrs["shift"])]


def index_roll(node: Node, position: tuple[Any, ...]) -> tuple[Any, ...]:
    axis = node.attrs["axis"]
    size = node.output.shape[axis]
    before = (position[axis] + (size - node.attrs["shift"])) % size
    return (*position[:axis], before, *position[axis + 1 :])


_FLIPS: tuple[tuple[tuple[int, ...], Axes], ...] = (
    ((1,), (0,)),
    ((65,), (0,)),
    ((3, 7), (1,)),
    ((3, 7), (0, 1)),
    ((2, 3, 4, 5), (1, 3)),
)
_ROLLS: tuple[tuple[tuple[int, ...], int, int], ...] = (
    ((2,), 0, 1),
    ((257,), 0, 100),
    ((3, 7), 1, 2),
    ((65, 3), 0, 64),
    ((2, 3, 4, 5), 2, 3),
)

OPS = (
    Op(
        "flip",
        infer,
        reference,
        View(index),
        grad,
        [Sample([shape], {"axes": axes}) for shape, axes in _FLIPS],
    ),
    Op(
        "roll",
        infer_roll,
        reference_roll,
        View(index_roll),
        grad_roll,
        [Sample([shape], {"axis": axis, "shift": shift}) for shape, axis, shift in _ROLLS],
    ),
)
