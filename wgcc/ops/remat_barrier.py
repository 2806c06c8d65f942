"""remat_barrier(x, after): x, but what is computed from it is computed once `after` is there.

What is made from it differs from what was made from x before, so that need not stay in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, TensorType, Value
from wgcc.lazy_numpy import Array
from wgcc.ops.registry import Op, Sample, View


def infer(x: TensorType, after: TensorType) -> TensorType:
    return x


def reference(x: Array, after: Array) -> Array:
    return x


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g
    return [gs[0], None]


OPS = (
    Op(
        "remat_barrier",
        infer,
        reference,
        View(lambda node, index: index),
        grad,
        [Sample([(65,), (3,)]), Sample([(3, 5), ()]), Sample([(), (2, 2)])],
    ),
)
