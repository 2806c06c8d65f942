"""Estimates how long numpy takes to evaluate a graph, in elements that it reads or writes.

Most ops use each element of their results once or twice; an op that does far more has a rule
(`Op.effort`).
"""

from __future__ import annotations

from collections.abc import Iterable

from wgcc.ir.graph import Graph, Node
from wgcc.ir.loops import loop_of
from wgcc.ops import OPS
from wgcc.ops.registry import NUMPY_CALL


def effort(graph: Graph) -> int:
    return nodes_effort(graph.nodes)


def nodes_effort(nodes: Iterable[Node]) -> int:
    return sum(map(_node_effort, nodes))


def _node_effort(node: Node) -> int:
    if loop := loop_of(node):
        return loop.rounds * (nodes_effort(loop.body.nodes) + NUMPY_CALL * len(loop.body.nodes))
    more = OPS[node.op].effort
    return sum(value.type.size for value in node.outputs) + (more(node) if more else 0)
