"""Simplifies a graph without changing what it computes: constant folding, simpler forms of nodes,
common-subexpression and dead-code elimination, until nothing changes."""

from __future__ import annotations

from functools import partial

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Graph, Node, Value, keep_fact, once_per_graph
from wgcc.ir.loops import map_bodies
from wgcc.passes.arithmetic_rules import ARITHMETIC_RULES
from wgcc.passes.cse import cse
from wgcc.passes.fold_tensors import fold_tensors
from wgcc.passes.known_values import Known, Rule
from wgcc.passes.loop_rules import simplify_loops
from wgcc.passes.number_rules import fold_numbers
from wgcc.passes.prune import prune
from wgcc.passes.rewrite import Rewrite
from wgcc.passes.view_rules import VIEW_RULES

RULES: dict[str, Rule] = {**ARITHMETIC_RULES, **VIEW_RULES}
# Each iteration shortens chains, and no rule makes one longer: only a safeguard.
MOST_ITERATIONS = 50


@once_per_graph
def simplify(graph: Graph) -> Graph:
    for _ in range(MOST_ITERATIONS):
        before = graph.nodes
        graph = map_bodies(simplify_loops(graph), simplify)
        graph = prune(cse(_apply_rules(graph)))
        if graph.nodes == before:
            break
    folded = prune(fold_tensors(graph))
    if folded is graph:
        # Nothing is left to do, whoever asks again.
        keep_fact(graph, simplify, graph)
    return folded


def _apply_rules(graph: Graph) -> Graph:
    rewrite, known = Rewrite(graph), Known()
    for old in graph.nodes:
        node = rewrite.updated(old)
        known.note(rewrite.replace(node, partial(_simplest, rewrite.builder, known, node)))
    return rewrite.finish()


def _simplest(builder: Builder, known: Known, node: Node) -> list[Value] | None:
    """A simpler value that equals the output of `node`, if a rule knows one."""
    if len(node.outputs) != 1:
        return None
    found = fold_numbers(builder, known, node)
    if found is None and node.op in RULES:
        found = RULES[node.op](builder, known, node)
    return None if found is None else [found]
