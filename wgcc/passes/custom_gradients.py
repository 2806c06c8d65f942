"""Removes what describes functions with a gradient of their own, once gradients are computed."""

from __future__ import annotations

from wgcc.ir.graph import Graph
from wgcc.ir.loops import map_bodies
from wgcc.ops.markers import COTANGENT, CUSTOM
from wgcc.passes.rewrite import Rewrite


def without_custom_gradients(graph: Graph) -> Graph:
    """Results are those of the function; a gradient that nothing asked for is zero."""
    graph = map_bodies(graph, without_custom_gradients)
    if not any(node.op in (COTANGENT, CUSTOM) for node in graph.nodes):
        return graph
    rewrite = Rewrite(graph)
    for node in graph.nodes:
        if node.op == CUSTOM:
            for output, result in zip(node.outputs, node.inputs, strict=False):
                rewrite.put(output, rewrite.current(result))
        elif node.op == COTANGENT:
            with rewrite.builder.at(node.span, node.output.name):
                zeros = rewrite.builder.zeros(node.output)
            rewrite.put(node.output, zeros)
        else:
            rewrite.keep(node)
    return rewrite.finish()
