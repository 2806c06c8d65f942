"""Join lists that grew one by one in a single step, so that nothing is copied again for each part.

`concat(concat(a, b), c)` becomes `concat(a, b, c)` where nothing else reads the inner one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from wgcc.ir.graph import Graph, Node, Value


def flatten_joins(graph: Graph) -> Graph:
    reads = Counter(value.name for node in graph.nodes for value in node.inputs)
    reads.update(value.name for value in graph.results)
    joins: dict[str, Node] = {}
    nodes = []
    for node in graph.nodes:
        if node.op == "concat":
            node = replace(node, inputs=tuple(_parts(node, joins, reads)))
            joins[node.output.name] = node
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _parts(node: Node, joins: dict[str, Node], reads: Counter[str]) -> Iterator[Value]:
    """Earlier joins are flat already."""
    for value in node.inputs:
        inner = joins.get(value.name)
        if inner and reads[value.name] == 1 and inner.attrs["axis"] == node.attrs["axis"]:
            yield from inner.inputs
        else:
            yield value
