"""copy(x): the same elements stored separately, where the scheduler needs that."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.registry import Op, Pointwise, Sample


def infer(x: TensorType) -> TensorType:
    return x


def reference(x: Array) -> Array:
    return np.asarray(x)


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g
    return list(gs)


OPS = (
    Op(
        "copy",
        infer,
        reference,
        Pointwise("{0}"),
        grad,
        [
            Sample([(65,)]),
            Sample([()]),
            Sample([TensorType((3, 5), "bool")], differentiable=False),
            Sample([TensorType((3, 5), "u8")], differentiable=False),
        ],
        identity=True,
    ),
)
