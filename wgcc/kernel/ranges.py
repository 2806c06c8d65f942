"""Intervals of whole numbers, and what operators make of them.

Arithmetic wraps around: an interval that would leave the numbers of its type is unknown (None), so
that nothing is proven from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

LIMIT = 1 << 32


@dataclass(frozen=True, slots=True)
class Range:
    """`low` and `high` are possible both."""

    low: int
    high: int

    @property
    def is_single(self) -> bool:
        return self.low == self.high


def single(value: int) -> Range:
    return Range(value, value)


def compare(op: str, a: Range, b: Range) -> bool | None:
    """Whether a comparison always or never holds; None if that is not known."""
    return _COMPARISONS[op](a, b)


def extreme(name: str, a: Range, b: Range) -> Range:
    """The range of `min(a, b)` or `max(a, b)`."""
    pick = min if name == "min" else max
    return Range(pick(a.low, b.low), pick(a.high, b.high))


def arithmetic(op: str, a: Range | None, b: Range | None, kind: str = "u32") -> Range | None:
    """The range of `a op b`, both of this type; None stands for all numbers of the type."""
    rule = _ARITHMETIC.get(op)
    if rule is None:
        return None
    whole = whole_range(kind)
    result = rule(a or whole, b or whole)
    if result is None or result.low < whole.low or result.high > whole.high:
        return None
    return None if result == whole else result


def whole_range(kind: str) -> Range:
    return Range(0, LIMIT - 1) if kind == "u32" else Range(-LIMIT // 2, LIMIT // 2 - 1)


def _corners(compute: Callable[[int, int], int], a: Range, b: Range) -> Range:
    """The range of an operation that only grows, or only falls, with each operand."""
    corners = [compute(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Range(min(corners), max(corners))


def _quotient(a: Range, b: Range) -> Range | None:
    """WGSL rounds towards zero. What is divided by zero stays as it is."""
    if b.low < 0 or (b.low == 0 and a.low < 0):
        return None
    if b.low == 0:
        return Range(0, a.high)
    return _corners(lambda x, y: x // y if x >= 0 else -(-x // y), a, b)


def _remainder(a: Range, b: Range) -> Range | None:
    """It has the sign of the dividend; by zero it is zero."""
    if b.low < 0:
        return None
    if b.low > 0 and a.low >= 0 and a.high < b.low:
        return a
    most = max(b.high - 1, 0)
    return Range(max(min(a.low, 0), -most), min(max(a.high, 0), most))


def _and(a: Range, b: Range) -> Range | None:
    if a.is_single and b.is_single:
        return single(a.low & b.low)
    masks = [side.high for side in (a, b) if side.low >= 0]
    return Range(0, min(masks)) if masks else None


def _or(a: Range, b: Range) -> Range | None:
    if a.is_single and b.is_single:
        return single(a.low | b.low)
    if a.low < 0 or b.low < 0:
        return None
    return Range(max(a.low, b.low), (1 << max(a.high, b.high).bit_length()) - 1)


def _xor(a: Range, b: Range) -> Range | None:
    if a.is_single and b.is_single:
        return single(a.low ^ b.low)
    either = _or(a, b)
    return None if either is None else Range(0, either.high)


def _shift(compute: Callable[[int, int], int], a: Range, b: Range) -> Range | None:
    """Only the last five bits of a distance count."""
    return _corners(compute, a, b) if b.low >= 0 and b.high < 32 else None


def _order(a: Range, b: Range, strict: bool) -> bool | None:
    """Is a below b?"""
    if a.high < b.low or (not strict and a.high == b.low):
        return True
    return False if a.low > b.high or (strict and a.low == b.high) else None


def _equal(a: Range, b: Range) -> bool | None:
    if a.is_single and a == b:
        return True
    return False if a.high < b.low or b.high < a.low else None


def _not_equal(a: Range, b: Range) -> bool | None:
    equal = _equal(a, b)
    return None if equal is None else not equal


_COMPARISONS: dict[str, Callable[[Range, Range], bool | None]] = {
    "<": lambda a, b: _order(a, b, strict=True),
    "<=": lambda a, b: _order(a, b, strict=False),
    ">": lambda a, b: _order(b, a, strict=True),
    ">=": lambda a, b: _order(b, a, strict=False),
    "==": _equal,
    "!=": _not_equal,
}
_ARITHMETIC: dict[str, Callable[[Range, Range], Range | None]] = {
    "+": lambda a, b: Range(a.low + b.low, a.high + b.high),
    "-": lambda a, b: Range(a.low - b.high, a.high - b.low),
    "*": lambda a, b: _corners(lambda x, y: x * y, a, b),
    "/": _quotient,
    "%": _remainder,
    "&": _and,
    "|": _or,
    "^": _xor,
    "<<": lambda a, b: _shift(lambda x, y: x << y, a, b),
    ">>": lambda a, b: _shift(lambda x, y: x >> y, a, b),
}
