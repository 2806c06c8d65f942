"""An entry as exporters need it: gradients computed, nodes that they cannot write taken apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wgcc.exporting.compositions import COMPOSITIONS
from wgcc.ir.graph import Graph, Node
from wgcc.ops import OPS
from wgcc.passes.autograd import autograd
from wgcc.passes.rewrite import Parts, composite, expand, prune


def written_out(graph: Graph, has_rule: Callable[[Node], bool]) -> Graph:
    """`has_rule`: whether the exporter writes a node itself. What nothing expresses stays."""

    def parts_of(node: Node) -> Parts | None:
        if has_rule(node):
            return None
        return COMPOSITIONS.get(node.op) or OPS[node.op].ordinary or composite(node)

    unguarded = replace(graph, range_guard=None)  # exported entries do not report wrong ids
    return prune(expand(autograd(unguarded), parts_of))
