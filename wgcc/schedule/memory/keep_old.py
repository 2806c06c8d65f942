"""Keep the content that an update replaces, for what is computed with it afterwards."""

from __future__ import annotations

from dataclasses import replace

from wgcc.ir.graph import Graph, Node, Value
from wgcc.passes.rewrite import builder_for
from wgcc.passes.updates import is_update, overwrites_bytes


def keep_old(graph: Graph, names: set[str]) -> tuple[Graph, frozenset[str]]:
    """Let everything but what replaces them read copies of these parameters or states.

    Gives the names of the copies, too.
    """
    builder = builder_for(graph)
    sources = [value for value in graph.sources if value.name in names]
    old = {v.name: builder.apply("copy", v, name=f"{v.name}.old") for v in sources}

    windows = {id(n) for n in graph.nodes if any(overwrites_bytes(n, name) for name in names)}

    def reads(node: Node) -> tuple[Value, ...]:
        inputs = tuple(old.get(value.name, value) for value in node.inputs)
        return (node.inputs[0], *inputs[1:]) if id(node) in windows else inputs

    nodes = [n if is_update(n) else replace(n, inputs=reads(n)) for n in graph.nodes]
    copies = frozenset(value.name for value in old.values())
    return replace(graph, nodes=(*builder.nodes, *nodes)), copies
