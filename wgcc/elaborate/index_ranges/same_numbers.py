"""Integer values that hold the same numbers, because the same expression computes them."""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.ir.graph import FLOATS, Graph, Value


def same_numbers(graph: Graph) -> Mapping[Value, Value]:
    """Maps each integer value that duplicates an earlier one to the first such value."""
    first: dict[tuple[object, ...], Value] = {}
    found: dict[Value, Value] = {}
    for node in graph.nodes:
        if len(node.outputs) != 1 or node.output.dtype in FLOATS or "body" in node.attrs:
            continue
        inputs = tuple(found.get(value, value) for value in node.inputs)
        key = (node.op, inputs, *sorted((name, repr(item)) for name, item in node.attrs.items()))
        known = first.setdefault(key, node.output)
        if known != node.output:
            found[node.output] = known
    return found
