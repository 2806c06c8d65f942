"""How values that grow with the number of rows, n, combine. This table is all the proof knows.

A sum over n rows has power 0, a mean -1, the number of rows 1 (see `row_kinds.py`). Of two operands
with powers p and q:

| op | gives | if |
|---|---|---|
| `mul`, `matmul` | p + q | at most one is a total; a total is only multiplied by `mul` |
| `div` | p - q | floats; the divisor is no total |
| `add`, `sub`, a join | p | p = q |
| the same, a total and what is fixed | p, a total | q = p + 1: n^p (Σ x + n c) = n^p Σ (x + c) |
| `neg`, views, copies, a cast to a float | p | |
| `sum` over rows | p, a total | they do not grow along another axis that it adds up |
| `sum` of equal, fixed elements along an axis that grows as n | p + 1 | |
| any other | 0 | all powers are 0, and none is a total |

Outputs: rows and fixed values of power 0, totals of power 0 (`sum`) and -1 (`mean`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc.ir.graph import FLOATS, Node
from wgcc.ops import OPS
from wgcc.ops.registry import Join, View
from wgcc.passes.row_kinds import Fixed, Kind, Mixed, Total

Powers = Sequence[int]
Rule = Callable[[Powers], int | None]


def _equal(powers: Powers) -> int | None:
    return powers[0] if len(set(powers)) == 1 else None


def _none(powers: Powers) -> int | None:
    return None if any(powers) else 0


RULES: dict[str, Rule] = {
    "mul": sum,
    "matmul": sum,
    "div": lambda powers: powers[0] - powers[1],
    "add": _equal,
    "sub": _equal,
    "neg": _equal,
    "cast": _equal,
    "sum": _equal,
}
# Of integers, or to integers, these round.
ROUNDING = ("div", "cast")


def power_of(node: Node, given: Sequence[Kind]) -> int | None:
    """The power of what a node computes; None if it is no power of the number of rows."""
    powers = [kind.power for kind in given if not isinstance(kind, Mixed)]
    if not any(powers):
        return 0
    lower = OPS[node.op].lower
    if node.op in ROUNDING and node.outputs[0].dtype not in FLOATS:
        return _none(powers)
    keeps = isinstance(lower, View | Join) or OPS[node.op].identity
    return RULES.get(node.op, _equal if keeps else _none)(powers)


def total_of(node: Node, given: Sequence[Kind]) -> Kind:
    """Sums and means stay what they are in linear functions."""
    op, totals = OPS[node.op], [kind for kind in given if isinstance(kind, Total)]
    others = [kind for kind in given if not isinstance(kind, Total)]
    first = totals[0]
    if isinstance(op.lower, View) or op.identity or node.op in ("neg", "sum"):
        at_known_places = all(isinstance(kind, Fixed) and not kind.power for kind in others)
        return first if given[0] is first and at_known_places else Mixed(node.span)
    if node.op == "cast":
        return first if node.output.dtype in FLOATS else Mixed(node.span)
    if isinstance(op.lower, Join) or node.op in ("add", "sub"):
        fits = all(isinstance(kind, Fixed) and kind.power == first.power + 1 for kind in others)
        return first if fits and len(set(totals)) == 1 else Mixed(node.span)
    is_scaled = node.op == "mul" or (node.op == "div" and given[0] is first)
    if is_scaled and len(totals) == 1 and node.output.dtype in FLOATS:
        return _scaled(node, first, others[0])
    return Mixed(node.span)


def _scaled(node: Node, total: Total, factor: Kind) -> Kind:
    if not isinstance(factor, Fixed):
        return Mixed(node.span)
    sign = 1 if node.op == "mul" else -1
    return Total(total.power + sign * factor.power)
