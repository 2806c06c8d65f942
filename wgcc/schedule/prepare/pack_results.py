"""Results of one byte per element are written as words of four, each by one thread."""

from __future__ import annotations

from dataclasses import replace

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Graph, Value
from wgcc.passes.rewrite import builder_for
from wgcc.schedule.updates import overwrites_bytes

# Elements of a word.
FOUR = 4


def pack_results(graph: Graph) -> Graph:
    """A window that is written into a state of bytes stays as it is: its kernel merges words."""
    builder = builder_for(graph)
    made = {value.name: node for node in graph.nodes for value in node.outputs}
    packed: dict[str, Value] = {}

    def words(value: Value, name: str) -> Value:
        if not value.type.is_packed or value.type.size == 1:
            return value
        if value.name not in packed:
            node = made.get(value.name)
            with builder.at(node.span if node else None, name):
                packed[value.name] = _packed(builder, value)
        return packed[value.name]

    writes = {
        name: value if overwrites_bytes(made.get(value.name), name) else words(value, name)
        for name, value in graph.writes.items()
    }
    outputs = {name: words(value, name) for name, value in graph.outputs.items()}
    nodes = (*graph.nodes, *builder.nodes)
    return replace(graph, nodes=nodes, outputs=outputs, writes=writes)


def _packed(b: Builder, value: Value) -> Value:
    size, words = value.type.size, value.type.words
    flat = b.apply("reshape", value, shape=(size,))
    if size % FOUR:
        flat = b.apply("unslice", flat, shape=(words * FOUR,), starts=(0,), steps=(1,))
    parts = [
        b.apply("slice", flat, starts=(i,), sizes=(words,), steps=(FOUR,)) for i in range(FOUR)
    ]
    return b.apply("pack", *parts)
