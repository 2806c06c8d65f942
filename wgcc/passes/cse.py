"""Common-subexpression elimination: equal nodes are merged into the first of them.

Every op is a function of its inputs and attributes, also random draws, which have a site.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.loops import map_bodies
from wgcc.ops import OPS
from wgcc.passes.rewrite import Rewrite


def cse(graph: Graph) -> Graph:
    rewrite = Rewrite(graph)
    first: dict[tuple[str, ...], tuple[Value, ...]] = {}
    for old in graph.nodes:
        node = rewrite.updated(old)
        known = first.setdefault(_key(node), node.outputs)
        if known is node.outputs:
            rewrite.keep(node)
            continue
        for mine, shared in zip(node.outputs, known, strict=True):
            rewrite.put(mine, shared)
    return map_bodies(rewrite.finish(), cse)


def _key(node: Node) -> tuple[str, ...]:
    """Equal for two nodes only if they compute the same. Loops are never merged."""
    if "body" in node.attrs:
        return (node.op, node.outputs[0].name)
    names = [value.name for value in node.inputs]
    operands = sorted(names) if OPS[node.op].commutative else names
    return (node.op, *operands, _spelled(node.attrs))


def _spelled(value: Any) -> str:
    """Numbers differ by value and sign (0.0 is not -0.0), never by type (1 is 1.0)."""
    if isinstance(value, (bool, int, float)):
        return repr(float(value))
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{_spelled(value[key])}' for key in sorted(value))}}}"
    if isinstance(value, (tuple, list)):
        return f"({','.join(map(_spelled, value))})"
    return repr(value)
