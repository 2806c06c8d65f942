"""broadcast(x; shape) by numpy's rule: axes align from the last, 1 stretches, new axes lead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_sizes
from wgcc.ops.formula import Term
from wgcc.ops.registry import Op, Sample, ShapeError, View


def infer(x: TensorType, shape: tuple[int, ...]) -> TensorType:
    check_sizes("broadcast", shape)
    added = len(shape) - x.rank
    fits = added >= 0 and all(
        size in (1, wanted) for size, wanted in zip(x.shape, shape[added:], strict=True)
    )
    if not fits:
        raise ShapeError(f"{x} cannot be broadcast to {list(shape)}")
    return TensorType(tuple(shape), x.dtype)


def reference(x: Array, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, shape)


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g summed over every axis that was added or stretched
    (g,), source, target = gs, node.inputs[0].shape, node.output.shape
    if g is None:
        return [None]
    added = len(target) - len(source)
    stretched = [added + k for k, size in enumerate(source) if size != target[added + k]]
    axes = (*range(added), *stretched)
    return [Term(b, g).sum(axes).reshape(source).value]


def index(node: Node, position: tuple[Any, ...]) -> tuple[Any, ...]:
    source = node.inputs[0].shape
    aligned = position[len(position) - len(source) :]
    return tuple(0 if size == 1 else at for size, at in zip(source, aligned, strict=True))


_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), (1,)),
    ((), (65,)),
    ((5,), (3, 5)),
    ((3, 1), (3, 5)),
    ((1, 5), (3, 5)),
    ((1, 1), (7, 11)),
    ((4, 1, 5), (2, 4, 3, 5)),
    ((1,), (257,)),
)

OPS = (
    Op(
        "broadcast",
        infer,
        reference,
        View(index),
        grad,
        [
            *(Sample([source], {"shape": target}) for source, target in _CASES),
            Sample([TensorType((3, 1), "i32")], {"shape": (3, 5)}, differentiable=False),
            Sample(
                [TensorType((), "bool")], {"shape": (3,)}, integers=(0, 1), differentiable=False
            ),
        ],
        never_stored=True,
    ),
)
