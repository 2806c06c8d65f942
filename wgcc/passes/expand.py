"""Replaces composite ops (softmax, layer_norm, …) by the simpler ops they consist of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.loops import map_bodies
from wgcc.ops import OPS
from wgcc.ops.registry import Expand
from wgcc.passes.rewrite import Rewrite

# Builds the values of a node from simpler ops.
Parts: TypeAlias = Callable[[Builder, Node], Sequence[Value]]


def composite(node: Node) -> Parts | None:
    lower = OPS[node.op].lower
    return lower.rule if isinstance(lower, Expand) else None


def expand(graph: Graph, parts_of: Callable[[Node], Parts | None] = composite) -> Graph:
    """`parts_of` says of what a node consists; None keeps it."""
    rewrite = Rewrite(graph)
    for node in graph.nodes:
        _write_out(rewrite, node, parts_of)
    return map_bodies(rewrite.finish(), partial(expand, parts_of=parts_of))


def _write_out(rewrite: Rewrite, old: Node, parts_of: Callable[[Node], Parts | None]) -> None:
    """A composite may consist of composites, so the result of its rule is expanded, too."""
    node = rewrite.updated(old)
    rule = parts_of(node)
    if rule is None:
        rewrite.keep(node)
        return
    made = rewrite.replace(node, lambda: rule(rewrite.builder, node))
    if made:
        del rewrite.builder.nodes[-len(made) :]
    for inner in made:
        _write_out(rewrite, inner, parts_of)
