"""Which whole numbers an expression can be: intervals, from those of the names in it.

u32 arithmetic wraps around. An interval that would leave 0 … 2³² - 1 is unknown (None), so that
nothing is proven from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wgcc.kernel.tree import Binary, Call, Expr, Literal, Member, Name, Unary

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


# A member of a vector is known by its text: `id.x`.
Ranges = Mapping[str, Range]


def range_of(expr: Expr, ranges: Ranges) -> Range | None:
    match expr:
        case Literal(value, kind) if kind in ("int", "u32"):
            return single(int(value))
        case Name(name):
            return ranges.get(name)
        case Member(Name(name), field):
            return ranges.get(f"{name}.{field}")
        case Binary(op, left, right) if op in _ARITHMETIC:
            return _binary(op, range_of(left, ranges), range_of(right, ranges))
        case Call("min" | "max" as name, (left, right)):
            return _extreme(name, range_of(left, ranges), range_of(right, ranges))
        case Call("select", (no, yes, condition)):
            return _select(range_of(no, ranges), range_of(yes, ranges), truth_of(condition, ranges))
        case Call("u32", (operand,)):
            return range_of(operand, ranges)
    return None


def truth_of(condition: Expr, ranges: Ranges) -> bool | None:
    """Whether a condition always or never holds; None if that is not known."""
    match condition:
        case Literal(value, "bool"):
            return bool(value)
        case Unary("!", operand):
            inner = truth_of(operand, ranges)
            return None if inner is None else not inner
        case Binary("&&" | "||" as op, left, right):
            decisive = op == "||"
            sides = truth_of(left, ranges), truth_of(right, ranges)
            return decisive if decisive in sides else None if None in sides else not decisive
        case Binary(op, left, right) if op in _COMPARISONS:
            a, b = range_of(left, ranges), range_of(right, ranges)
            return None if a is None or b is None else _COMPARISONS[op](a, b)
    return None


def value_of(expr: Expr, ranges: Ranges) -> int | None:
    """The number that an expression always is."""
    found = range_of(expr, ranges)
    return found.low if found is not None and found.is_single else None


def narrowed(condition: Expr, ranges: Ranges) -> Ranges:
    """What is known where a condition holds."""
    match condition:
        case Binary("&&", left, right):
            return narrowed(right, narrowed(left, ranges))
        case Binary("<" | "<=" as op, Name() | Member() as name, limit):
            most, text = range_of(limit, ranges), _text(name)
            if most is not None and text:
                high = most.high - (op == "<")
                known = ranges.get(text, Range(0, LIMIT - 1))
                if known.low <= high:
                    return {**ranges, text: Range(known.low, min(known.high, high))}
    return ranges


def _text(name: Expr) -> str:
    match name:
        case Name(text):
            return text
        case Member(Name(text), field):
            return f"{text}.{field}"
    return ""


def _binary(op: str, a: Range | None, b: Range | None) -> Range | None:
    if op == "%" and b is not None and b.low > 0:
        if a is not None and a.high < b.low:
            return a
        return Range(0, b.high - 1)
    if op == "&" and (known := b or a) is not None:
        return Range(0, known.high)
    if a is None or b is None or (op == "/" and b.low == 0):
        return None
    corners = [_ARITHMETIC[op](x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    low, high = min(corners), max(corners)
    return Range(low, high) if low >= 0 and high < LIMIT else None


def _extreme(name: str, a: Range | None, b: Range | None) -> Range | None:
    if a is None or b is None:
        known = a or b
        return Range(0, known.high) if known is not None and name == "min" else None
    pick = min if name == "min" else max
    return Range(pick(a.low, b.low), pick(a.high, b.high))


def _select(no: Range | None, yes: Range | None, condition: bool | None) -> Range | None:
    if condition is not None:
        return yes if condition else no
    if no is None or yes is None:
        return None
    return Range(min(no.low, yes.low), max(no.high, yes.high))


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
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "&": lambda a, b: a & b,
    "<<": lambda a, b: a << min(b, 32),
    ">>": lambda a, b: a >> min(b, 32),
}
