"""Which intermediate values a model of `precision = f16` stores as f16.

Large ones that are computed element by element or as products. Sums, statistics and whatever a
recurrence carries stay f32, as do parameters, gradients of parameters, state, inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.ir.graph import Graph, Node, Value
from wgcc.ops.registry import Indirect, Pointwise, Special
from wgcc.passes.dataflow import lowering

# Smaller ones would save nothing worth losing digits for.
LARGE = 1024


def halves_of(graph: Graph, stored: Mapping[str, tuple[Value, int]]) -> set[str]:
    """The names, among `stored`, of values to store as f16."""
    return {
        value.name
        for node in graph.nodes
        if is_narrow(node)
        for value in node.outputs
        if value.name in stored and value.dtype == "f32" and value.type.size >= LARGE
    }


def is_narrow(node: Node) -> bool:
    lower = lowering(node)
    return lower.narrow if isinstance(lower, Special) else isinstance(lower, Pointwise | Indirect)
