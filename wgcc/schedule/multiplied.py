"""Which parameters matrix products load: those that a model of `precision = f16` copies as f16."""

from __future__ import annotations

from wgcc.ir.graph import Graph, TensorType
from wgcc.ir.loops import loop_of
from wgcc.schedule.dataflow import Flow

# Smaller ones would save nothing worth losing digits for.
LARGE = 1024


def may_be_copied(type_: TensorType) -> bool:
    return type_.dtype == "f32" and type_.size >= LARGE


def multiplied(graph: Graph) -> set[str]:
    """The parameters and other sources that products load as they are, also inside loops."""
    flow = Flow.of(graph)
    found = {
        value.name
        for value in graph.sources
        if any(node.op == "matmul" for node in flow.readers(value))
    }
    for loop in (loop for node in graph.nodes if (loop := loop_of(node))):
        inside = multiplied(loop.body)
        pairs = (*loop.captured, *loop.sliced)
        found |= {outer.name for outer, inner in pairs if inner.name in inside}
    return found
