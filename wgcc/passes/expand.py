"""Replaces composite ops (softmax, layer_norm, …) by the simpler ops they consist of."""

from __future__ import annotations

from wgcc.ir.graph import Graph, Node
from wgcc.ir.loops import map_bodies
from wgcc.ops import OPS
from wgcc.ops.registry import Expand
from wgcc.passes.rewrite import Rewrite


def expand(graph: Graph) -> Graph:
    rewrite = Rewrite(graph)
    for node in graph.nodes:
        _write_out(rewrite, node)
    return map_bodies(rewrite.finish(), expand)


def _write_out(rewrite: Rewrite, old: Node) -> None:
    """A composite may consist of composites, so the result of its rule is expanded, too."""
    node = rewrite.updated(old)
    lower = OPS[node.op].lower
    if not isinstance(lower, Expand):
        rewrite.keep(node)
        return
    made = rewrite.replace(node, lambda: lower.rule(rewrite.builder, node))
    if made:
        del rewrite.builder.nodes[-len(made) :]
    for inner in made:
        _write_out(rewrite, inner)
