"""Between which numbers a value is, as far as the statements that compute it show."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TypeAlias

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.literals import Infinite
from wgcc.from_onnx.patterns import number
from wgcc.from_onnx.values import Member, Part, Statement, Value

Bounds: TypeAlias = tuple[float, float]
UNKNOWN = (-math.inf, math.inf)
# So many statements are followed: each may have two operands.
MOST_STEPS = 8
WHOLE = {"bool": (0.0, 1.0), "i32": (-(2.0**31), 2.0**31), "u32": (0.0, 2.0**32)}
ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "{0} + {1}": operator.add,
    "{0} - {1}": operator.sub,
    "{0} * {1}": operator.mul,
}
VIEWS = ("reshape(", "rearrange(")


def bounds(op: Op, part: Part, steps: int = MOST_STEPS) -> Bounds:
    """Infinite only where a number of the file is, or nothing is known."""
    if isinstance(part, Member):
        return _stored(part)
    if isinstance(part, str):
        found = exact_number(part)
        return (found, found) if found is not None else UNKNOWN
    made = op.writer.made_by.get(part)
    return _computed(op, made, steps - 1) if made is not None and steps else UNKNOWN


def exact_number(part: Part) -> float | None:
    """A number; infinity where the file has it, though the text has the largest float instead."""
    found = number(part)
    is_infinite = isinstance(part, Infinite) or (isinstance(part, Member) and part.is_infinite)
    return math.copysign(math.inf, found) if found is not None and is_infinite else found


def _stored(member: Member) -> Bounds:
    array = member.arrays.get("")
    if array is None or not array.size or member.is_infinite:
        return UNKNOWN
    return float(array.min()), float(array.max())


def _computed(op: Op, made: Statement, steps: int) -> Bounds:
    first = made.parts[0] if made.parts else ""
    if made.text == "{0}" or made.text.startswith(VIEWS):
        return bounds(op, first, steps)
    if made.text == "f32({0})" and isinstance(first, Value):
        return WHOLE.get(first.dtype, UNKNOWN)
    if made.text == "where({0}, {1}, {2})":
        (a, b), (c, d) = (bounds(op, part, steps) for part in made.parts[1:])
        return min(a, c), max(b, d)
    if made.text not in ARITHMETIC:
        return UNKNOWN
    left, right = (bounds(op, part, steps) for part in made.parts)
    ends = [ARITHMETIC[made.text](a, b) for a in left for b in right]
    return UNKNOWN if any(map(math.isnan, ends)) else (min(ends), max(ends))
