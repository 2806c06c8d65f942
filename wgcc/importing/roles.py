"""What a parameter is used for, read off the graph: it decides how a square one must be turned."""

from __future__ import annotations

from collections.abc import Iterator

from wgcc.ir.graph import Graph, Value
from wgcc.ir.program import Program

# Rows are looked up by number; multiplied from the right (x @ w), or from the left or transposed.
# A plain tensor is added, scaled and so on, as it is.
TABLE, MATRIX, TURNED_MATRIX, PLAIN = "table", "matrix", "turned matrix", "plain"
# The first of these that a parameter is used as counts.
_ORDER = (TABLE, MATRIX, TURNED_MATRIX, PLAIN)
# What passes a matrix on without turning it, and what may do anything to it.
_SAME = frozenset({"cast", "broadcast", "stop_grad", "copy", "slice", "window"})
_UNKNOWN = frozenset({"reshape", "transpose"})


def roles(program: Program) -> dict[str, str]:
    """The role of each parameter whose role can be seen."""
    used: dict[str, set[str]] = {}
    for graph in program.entries.values():
        for param in graph.params:
            used.setdefault(param.name, set()).update(_uses(graph, param, turned=False))
    return {n: next(r for r in _ORDER if r in kinds) for n, kinds in used.items() if kinds}


def _uses(graph: Graph, value: Value, turned: bool) -> Iterator[str]:
    for node in graph.nodes:
        if value not in node.inputs:
            continue
        if node.op == "gather" and node.inputs[0] == value:
            yield TABLE
        elif node.op == "matmul":
            yield TURNED_MATRIX if turned == (node.inputs[1] == value) else MATRIX
        elif node.op == "transpose" and node.attrs["perm"][-2:] == _last_two_swapped(value):
            yield from _uses(graph, node.output, not turned)
        elif node.op in _SAME or (node.op == "reshape" and _keeps_matrix(value, node.output)):
            yield from _uses(graph, node.output, turned)
        elif node.op not in _UNKNOWN:
            yield PLAIN


def _last_two_swapped(value: Value) -> tuple[int, int]:
    return (value.type.rank - 1, value.type.rank - 2)


def _keeps_matrix(before: Value, after: Value) -> bool:
    return before.shape[-2:] == after.shape[-2:]
