"""broadcast(x; shape) by numpy's rule: axes align from the last, 1 stretches, new axes lead.

reshape(x; shape): the same elements in the same order under another shape.

transpose(x; perm): axis k of the result is axis perm[k] of x.

flip(x; axes): the elements in reverse order along some axes.

roll(x; axis, shift): elements moved on by `shift` places; what leaves at the end enters in front.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from wgcc.ir.graph import Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.registry import Op, Sample, ShapeError, View, check_axes, check_axis, check_sizes


def infer_broadcast(x: TensorType, shape: tuple[int, ...]) -> TensorType:
    check_sizes("broadcast", shape)
    added = len(shape) - x.rank
    fits = added >= 0 and all(
        size in (1, wanted) for size, wanted in zip(x.shape, shape[added:], strict=True)
    )
    if not fits:
        raise ShapeError(f"{x} cannot be broadcast to {list(shape)}")
    return TensorType(tuple(shape), x.dtype)


def reference_broadcast(x: Array, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, shape)


def grad_broadcast(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g summed over every axis that was added or stretched
    (g,), source, target = gs, node.inputs[0].shape, node.output.shape
    if g is None:
        return [None]
    added = len(target) - len(source)
    stretched = [added + k for k, size in enumerate(source) if size != target[added + k]]
    axes = (*range(added), *stretched)
    return [Term(b, g).sum(axes).reshape(source).value]


def index_broadcast(node: Node, position: tuple[Any, ...]) -> tuple[Any, ...]:
    source = node.inputs[0].shape
    aligned = position[len(position) - len(source) :]
    return tuple(0 if size == 1 else at for size, at in zip(source, aligned, strict=True))


_BROADCAST_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), (1,)),
    ((), (65,)),
    ((5,), (3, 5)),
    ((3, 1), (3, 5)),
    ((1, 5), (3, 5)),
    ((1, 1), (7, 11)),
    ((4, 1, 5), (2, 4, 3, 5)),
    ((1,), (257,)),
)


def infer_reshape(x: TensorType, shape: tuple[int, ...]) -> TensorType:
    check_sizes("reshape", shape)
    if prod(shape) != x.size:
        raise ShapeError(f"{x} has {x.size} elements, {list(shape)} has {prod(shape)}")
    return TensorType(tuple(shape), x.dtype)


def reference_reshape(x: Array, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


def grad_reshape(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g in x's shape
    (g,) = gs
    return [None if g is None else b.apply("reshape", g, shape=node.inputs[0].shape)]


def index_reshape(node: Node, position: tuple[Any, ...]) -> tuple[Any, ...]:
    """Axes are matched in the smallest groups of equal size, so that most need no division."""
    source, target = node.inputs[0].shape, node.output.shape
    source_position: list[Any] = [0] * len(source)
    for source_axes, target_axes in _groups(source, target):
        flat = position[target_axes[0]]
        for axis in target_axes[1:]:
            flat = flat * target[axis] + position[axis]
        _unflatten(flat, source, source_axes, source_position)
    return tuple(source_position)


def _unflatten(
    flat: Any, shape: Sequence[int], axes: Sequence[int], source_position: list[Any]
) -> None:
    stride = prod(shape[axis] for axis in axes)
    for order, axis in enumerate(axes):
        stride //= shape[axis]
        coordinate = flat // stride if stride > 1 else flat
        source_position[axis] = coordinate % shape[axis] if order else coordinate


def _groups(source: Sequence[int], target: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Pairs of runs of axes (those of size 1 left out) that hold the same number of elements."""
    left = [axis for axis, size in enumerate(source) if size > 1]
    right = [axis for axis, size in enumerate(target) if size > 1]
    while left:
        ours, theirs = [left.pop(0)], [right.pop(0)]
        while (a := prod(source[i] for i in ours)) != (c := prod(target[i] for i in theirs)):
            if a < c:
                ours.append(left.pop(0))
            else:
                theirs.append(right.pop(0))
        yield ours, theirs


_RESHAPE_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), (1,)),
    ((1, 1), ()),
    ((65,), (5, 13)),
    ((5, 13), (65,)),
    ((3, 5), (3, 1, 5)),
    ((6, 4), (3, 8)),
    ((2, 3, 4, 5), (6, 20)),
    ((2, 3, 4, 5), (2, 12, 5)),
    ((7, 6), (7, 2, 3, 1)),
    ((257, 2), (2, 257)),
)


def infer_transpose(x: TensorType, perm: tuple[int, ...]) -> TensorType:
    if sorted(perm) != list(range(x.rank)):
        raise ShapeError(f"transpose: {list(perm)} does not name every axis of {x} once")
    return TensorType(tuple(x.shape[axis] for axis in perm), x.dtype)


def reference_transpose(x: Array, perm: tuple[int, ...]) -> Array:
    return np.transpose(x, perm)


def grad_transpose(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g transposed by the inverse permutation
    (g,) = gs
    return [None if g is None else b.apply("transpose", g, perm=inverse(node.attrs["perm"]))]


def index_transpose(node: Node, position: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(position[k] for k in inverse(node.attrs["perm"]))


def inverse(perm: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(perm)), key=lambda k: perm[k]))


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
        "broadcast",
        infer_broadcast,
        reference_broadcast,
        View(index_broadcast),
        grad_broadcast,
        [
            *(Sample([source], {"shape": target}) for source, target in _BROADCAST_CASES),
            Sample([TensorType((3, 1), "i32")], {"shape": (3, 5)}, differentiable=False),
            Sample(
                [TensorType((), "bool")], {"shape": (3,)}, integers=(0, 1), differentiable=False
            ),
        ],
        never_stored=True,
    ),
    Op(
        "reshape",
        infer_reshape,
        reference_reshape,
        View(index_reshape, rearranges_axes=True, in_order=True),
        grad_reshape,
        [
            *(Sample([source], {"shape": target}) for source, target in _RESHAPE_CASES),
            Sample([TensorType((6,), "i32")], {"shape": (2, 3)}, differentiable=False),
            Sample(
                [TensorType((6,), "bool")], {"shape": (2, 3)}, integers=(0, 1), differentiable=False
            ),
        ],
        never_stored=True,
    ),
    Op(
        "transpose",
        infer_transpose,
        reference_transpose,
        View(index_transpose, rearranges_axes=True),
        grad_transpose,
        [
            Sample([()], {"perm": ()}),
            Sample([(65,)], {"perm": (0,)}),
            Sample([(3, 5)], {"perm": (1, 0)}),
            Sample([(63, 65)], {"perm": (1, 0)}),
            Sample([(2, 3, 5)], {"perm": (2, 0, 1)}),
            Sample([(2, 3, 4, 5)], {"perm": (0, 2, 1, 3)}),
            Sample([TensorType((3, 7), "i32")], {"perm": (1, 0)}, differentiable=False),
        ],
        never_stored=True,
    ),
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
