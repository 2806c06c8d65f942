"""Dead-code elimination: drops every node that no result depends on."""

from __future__ import annotations

from dataclasses import replace

from wgcc.ir.graph import Graph


def prune(graph: Graph) -> Graph:
    live = {value.name for value in graph.results}
    kept = []
    for node in reversed(graph.nodes):
        if any(value.name in live for value in node.outputs):
            kept.append(node)
            live.update(value.name for value in node.inputs)
    return replace(graph, nodes=tuple(reversed(kept)))
