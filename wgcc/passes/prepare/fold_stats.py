"""The statistics that gradients of attention need are made by the kernel of the first of them.

Each workgroup of it has the rows of the result and of its gradient at hand.
"""

from __future__ import annotations

from wgcc.ir.graph import Graph, Node
from wgcc.passes.dataflow import Flow
from wgcc.passes.rewrite import Rewrite

# q, k, v, dy and the statistics; offset and mask come after them, and would take bindings.
INPUTS = 5


def fold_stats(graph: Graph) -> Graph:
    rewrite, flow = Rewrite(graph), Flow.of(graph)
    folded: set[str] = set()
    for node in graph.nodes:
        first = _first_gradient(flow, node) if node.op == "attention_stats" else None
        if first is not None:
            folded.add(first.output.name)
            rewrite.keep(_both(node, first))
        elif node.outputs[0].name not in folded:
            rewrite.keep(node)
    return rewrite.finish()


def _first_gradient(flow: Flow, stats: Node) -> Node | None:
    """The gradient of q that reads these statistics; none of its other inputs is made later."""
    readers = flow.consumers.get(stats.output.name, ())
    found = [n for n in readers if n.op == "attention_grad_q" and len(n.inputs) == INPUTS]
    y, dy = stats.inputs[0], stats.inputs[2]
    attention = flow.producers.get(y.name)
    if len(found) != 1 or attention is None or found[0].inputs[3] != dy:
        return None
    return found[0] if found[0].inputs[:3] == attention.inputs[:3] else None


def _both(stats: Node, first: Node) -> Node:
    q, k, v, dy, _ = first.inputs
    y, rows, _ = stats.inputs
    outputs = stats.output, first.output
    return Node("attention_grad_stats_q", (q, k, v, dy, y, rows), outputs, first.attrs, first.span)
