"""reshape(x; shape): the same elements in the same order under another shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, TensorType, Value
from wgcc.lazy_numpy import Array
from wgcc.ops.checks import check_sizes
from wgcc.ops.registry import Op, Sample, ShapeError, View


def infer(x: TensorType, shape: tuple[int, ...]) -> TensorType:
    check_sizes("reshape", shape)
    if prod(shape) != x.size:
        raise ShapeError(f"{x} has {x.size} elements, {list(shape)} has {prod(shape)}")
    return TensorType(tuple(shape), x.dtype)


def reference(x: Array, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g in x's shape
    (g,) = gs
    return [None if g is None else b.apply("reshape", g, shape=node.inputs[0].shape)]


def index(node: Node, position: tuple[Any, ...]) -> tuple[Any, ...]:
    """Axes are matched in the smallest groups of equal size, so that most need no division."""
    source, target = node.inputs[0].shape, node.output.shape
    found: list[Any] = [0] * len(source)
    for source_axes, target_axes in _groups(source, target):
        flat = position[target_axes[0]]
        for axis in target_axes[1:]:
            flat = flat * target[axis] + position[axis]
        _unflatten(flat, source, source_axes, found)
    return tuple(found)


def _unflatten(flat: Any, shape: Sequence[int], axes: Sequence[int], found: list[Any]) -> None:
    stride = prod(shape[axis] for axis in axes)
    for order, axis in enumerate(axes):
        stride //= shape[axis]
        coordinate = flat // stride if stride > 1 else flat
        found[axis] = coordinate % shape[axis] if order else coordinate


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


_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
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

OPS = (
    Op(
        "reshape",
        infer,
        reference,
        View(index),
        grad,
        [
            *(Sample([source], {"shape": target}) for source, target in _CASES),
            Sample([TensorType((6,), "i32")], {"shape": (2, 3)}, differentiable=False),
            Sample(
                [TensorType((6,), "bool")], {"shape": (2, 3)}, integers=(0, 1), differentiable=False
            ),
        ],
        never_stored=True,
    ),
)
