"""The interval of a value where a condition on it is known to be true, or false."""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.elaborate.index_ranges.interval import Interval, overlap
from wgcc.ir.graph import Node, Value

FAR = 2**70
# Parts of a condition that are looked at; an interval may be wider than what really occurs.
MOST_PARTS = 64
_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def in_branch(
    condition: Value,
    is_true: bool,
    value: Value,
    producers: Mapping[str, Node],
    found: Mapping[str, Interval],
) -> Interval:
    """The interval of `value` where `condition` is true (or false); empty if that never happens."""
    known, pending = found[value.name], [(condition, is_true)]
    parts = 0
    while pending and parts < MOST_PARTS:
        claim, holds = pending.pop()
        parts += 1
        node = producers.get(claim.name)
        if node is None:
            continue
        if node.op == "logical_not":
            pending.append((node.inputs[0], not holds))
        elif node.op == ("logical_and" if holds else "logical_or"):
            pending += [(operand, holds) for operand in node.inputs]
        elif node.op in _OPPOSITE and value in node.inputs:
            known = overlap(known, _compared(node, holds, value, found))
    return known


def _compared(node: Node, holds: bool, value: Value, found: Mapping[str, Interval]) -> Interval:
    x, other = node.inputs
    relation = node.op if holds else _OPPOSITE[node.op]
    if value != x:
        relation, other = _SWAPPED[relation], x
    low, high = found[other.name]
    return {
        "lt": (-FAR, high - 1),
        "le": (-FAR, high),
        "gt": (low + 1, FAR),
        "ge": (low, FAR),
        "eq": (low, high),
        "ne": (-FAR, FAR),
    }[relation]
