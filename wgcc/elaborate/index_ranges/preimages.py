"""Finds the numbers an operand may hold so that the result of an op has only allowed numbers.

The answer is exact or unknown, because inputs are refused by it, and no valid input may be refused.
Numbers whose arithmetic would overflow are not considered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from wgcc.elaborate.index_ranges.intervals import UNKNOWN, Interval, within
from wgcc.ir.dtypes import INTEGER_RANGES, NARROW_INTEGERS
from wgcc.ir.graph import INTEGERS, Node, Value
from wgcc.ir.places import ceil_div
from wgcc.ops import OPS
from wgcc.ops.registry import Indirect


@dataclass(frozen=True, slots=True)
class Allowed:
    """The numbers `low` to `high`, and `ignore` if there is such a number."""

    low: int
    high: int
    ignore: int | None = None

    def __str__(self) -> str:
        return f"{self.low} to {self.high}" + ("" if self.ignore is None else f" or {self.ignore}")

    @property
    def width(self) -> int:
        return self.high - self.low

    @property
    def is_empty(self) -> bool:
        return self.low > self.high and self.ignore is None

    @property
    def hull(self) -> Interval:
        if self.ignore is None:
            return self.low, self.high
        return min(self.low, self.ignore), max(self.high, self.ignore)

    def holds(self, number: int) -> bool:
        return self.low <= number <= self.high or number == self.ignore

    def shift(self, by: int) -> Allowed:
        ignore = None if self.ignore is None else self.ignore + by
        return Allowed(self.low + by, self.high + by, ignore)

    def negate(self) -> Allowed:
        return Allowed(-self.high, -self.low, None if self.ignore is None else -self.ignore)


@dataclass(frozen=True, slots=True)
class Facts:
    """The nodes and the intervals of the values of a graph, by name.

    `ends` remembers the answers of `ends_occur`.
    """

    producers: Mapping[str, Node]
    intervals: Mapping[str, Interval]
    ends: dict[str, bool] = field(default_factory=dict)


Demands = list[tuple[Value, Allowed]]


def carries(node: Node) -> bool:
    """Whether each element of the output is one of an operand, but for its dtype."""
    return OPS[node.op].moves_elements or node.op in ("concat", "cast")


def leaves_out(node: Node) -> bool:
    """Whether the output may lack elements of the first operand."""
    op = OPS[node.op]
    if not op.moves_elements:
        return False
    return isinstance(op.lower, Indirect) or node.output.type.size < node.inputs[0].type.size


def preimage(node: Node, allowed: Allowed, facts: Facts) -> Demands | None:
    """The numbers each operand must hold for the output to be `allowed`; None if unknown."""
    if node.op == "concat":
        return [(value, allowed) for value in node.inputs]
    if node.op == "cast":
        return _of_cast(node, allowed, facts)
    if carries(node):
        return [(node.inputs[0], allowed)]
    if node.op in _ONE_OPERAND:
        operand_range = _ONE_OPERAND[node.op](allowed)
        return [(node.inputs[0], operand_range)] if operand_range else None
    if node.op in _TWO_OPERANDS:
        return _of_constant_and_other(node, allowed, facts) or _of_row(node, allowed, facts)
    return None


def _of_cast(node: Node, allowed: Allowed, facts: Facts) -> Demands | None:
    """None if the cast changes an allowed number; to and from u32 it changes negative ones."""
    (x,) = node.inputs
    if x.dtype not in INTEGERS:
        return None
    target = node.output.dtype
    narrows = target in NARROW_INTEGERS and not within(
        facts.intervals[x.name], INTEGER_RANGES[target]
    )
    splits = "u32" in (x.dtype, target) and allowed.hull[0] < 0
    return None if narrows or splits else [(x, allowed)]


def _of_constant_and_other(node: Node, allowed: Allowed, facts: Facts) -> Demands | None:
    rules, (x, z) = _TWO_OPERANDS[node.op], node.inputs
    for rule, fixed, other in ((rules[0], z, x), (rules[1], x, z)):
        low, high = facts.intervals[fixed.name]
        if rule is not None and low == high:
            operand_range = rule(allowed, low)
            return [(other, operand_range)] if operand_range else None
    return None


def _of_row(node: Node, allowed: Allowed, facts: Facts) -> Demands | None:
    """`at + arange(n)`: one number, to which every number of an interval is added."""
    if node.op != "add" or allowed.ignore is not None:
        return None
    for one, row in (node.inputs, node.inputs[::-1]):
        spread = facts.producers.get(one.name)
        alone = spread is not None and spread.op == "broadcast" and spread.inputs[0].type.size == 1
        if (alone or one.type.size == 1) and ends_occur(row, facts):
            low, high = facts.intervals[row.name]
            return [(one, Allowed(allowed.low - low, allowed.high - high))]
    return None


def ends_occur(value: Value, facts: Facts) -> bool:
    """Whether some element is the least and some the greatest of its interval, in every call."""
    path: list[str] = []
    occur = facts.ends.get(value.name)
    while occur is None:
        path.append(value.name)
        node = facts.producers.get(value.name)
        operand = _same_ends(node, facts) if node is not None else None
        if operand is None:
            occur = node is not None and node.op in ("iota", "const", "literal")
        else:
            value, occur = operand, facts.ends.get(operand.name)
    facts.ends.update(dict.fromkeys(path, occur))
    return occur


def _same_ends(node: Node, facts: Facts) -> Value | None:
    """The operand whose ends occur exactly if those of the output do; None if there is none."""
    varying = [v for v in node.inputs if len(set(facts.intervals[v.name])) > 1]
    whole = OPS[node.op].moves_elements and not leaves_out(node)
    if not (whole or node.op in ("add", "sub", "mul", "neg")) or len(varying) > 1:
        return None
    return (varying or node.inputs)[0]


def _of_abs(allowed: Allowed) -> Allowed | None:
    """The preimage would be two intervals, unless they meet at zero."""
    simple = allowed.low <= 0 and allowed.ignore is None
    return Allowed(-allowed.high, allowed.high) if simple else None


def _of_multiple(allowed: Allowed, factor: int) -> Allowed | None:
    """x · factor"""
    if factor == 0 or allowed.ignore is not None:
        return None
    if factor < 0:
        return _of_multiple(allowed.negate(), -factor)
    return Allowed(ceil_div(allowed.low, factor), allowed.high // factor)


def _of_quotient(allowed: Allowed, divisor: int) -> Allowed | None:
    """x / divisor, rounded down"""
    if divisor == 0 or allowed.ignore is not None:
        return None
    if divisor < 0:
        return Allowed((allowed.high + 1) * divisor + 1, allowed.low * divisor)
    return Allowed(allowed.low * divisor, (allowed.high + 1) * divisor - 1)


def _of_maximum(allowed: Allowed, least: int) -> Allowed | None:
    """max(x, least): if `least` is allowed, so is everything below it."""
    if allowed.ignore is not None or least > allowed.high:
        return None
    return replace(allowed, low=UNKNOWN[0]) if least >= allowed.low else allowed


def _of_minimum(allowed: Allowed, most: int) -> Allowed | None:
    negative = _of_maximum(allowed.negate(), -most)
    return negative.negate() if negative else None


_ONE_OPERAND: dict[str, Callable[[Allowed], Allowed | None]] = {
    "neg": Allowed.negate,
    "abs": _of_abs,
}
Rule = Callable[[Allowed, int], Allowed | None]
# With a constant on the right, and on the left.
_TWO_OPERANDS: dict[str, tuple[Rule, Rule | None]] = {
    "add": (lambda a, c: a.shift(-c), lambda a, c: a.shift(-c)),
    "sub": (lambda a, c: a.shift(c), lambda a, c: a.negate().shift(c)),
    "mul": (_of_multiple, _of_multiple),
    "div": (_of_quotient, None),
    "maximum": (_of_maximum, _of_maximum),
    "minimum": (_of_minimum, _of_minimum),
}
