"""transpose(x; perm): axis k of the result is axis perm[k] of x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.registry import Op, Sample, ShapeError, View


def infer(x: TensorType, perm: tuple[int, ...]) -> TensorType:
    if sorted(perm) != list(range(x.rank)):
        raise ShapeError(f"transpose: {list(perm)} does not name every axis of {x} once")
    return TensorType(tuple(x.shape[axis] for axis in perm), x.dtype)


def reference(x: Array, perm: tuple[int, ...]) -> Array:
    return np.transpose(x, perm)


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g transposed by the inverse permutation
    (g,) = gs
    return [None if g is None else b.apply("transpose", g, perm=inverse(node.attrs["perm"]))]


def index(node: Node, position: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(position[k] for k in inverse(node.attrs["perm"]))


def inverse(perm: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(perm)), key=lambda k: perm[k]))


OPS = (
    Op(
        "transpose",
        infer,
        reference,
        View(index),
        grad,
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
)
