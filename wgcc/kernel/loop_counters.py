"""Counters of loops: where one can be, and whether its loop is proven to end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wgcc.kernel.abstract import AbstractValue, Evaluation
from wgcc.kernel.ranges import Range, arithmetic, single, whole_range
from wgcc.kernel.rewrite.transform import assigned_in
from wgcc.kernel.tree import Assign, Binary, Expr, Loop, Name

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def counter_of(
    e: Evaluation, loop: Loop, starts: Mapping[str, AbstractValue]
) -> tuple[str, Range] | None:
    """The variable that the head of a loop counts, and where it can be: it never turns back.

    `starts`: what the variables that the loop assigns are before it.
    """
    head = _head(e, loop, starts)
    if head is None:
        return None
    name, op, kind, first, stride = head
    variable = e.lookup(name)
    assert variable is not None and variable.value.expr is not None
    inside = e.facts.range(variable.value.expr)
    # The next value, if it does not wrap around.
    following = arithmetic(op, inside, stride, kind)
    whole = whole_range(kind)
    if op in ("/", ">>") and kind == "u32":
        return name, Range(0, first.high)
    if following is None or stride.low < (1 if op == "*" else 0):
        return None
    if op == "+" and stride.is_single and stride.low > 0:
        # No first number takes more steps than the lowest of them.
        steps = max(inside.high - first.low, 0) // stride.low
        return name, Range(first.low, min(first.high + steps * stride.low, whole.high))
    if op == "+" or (op == "*" and first.low >= 0):
        return name, Range(first.low, whole.high)
    return (name, Range(whole.low, first.high)) if op == "-" else None


def ends(e: Evaluation, loop: Loop, starts: Mapping[str, AbstractValue]) -> bool:
    """Whether a loop is proven to end, in a state that holds for any of its iterations.

    Its counter moves in each iteration, and passes the bound before it could wrap around.
    """
    head = _head(e, loop, starts)
    if head is None:
        return False
    name, op, kind, first, stride = head
    if op in ("/", ">>"):
        shrinks = kind == "u32" and stride.low >= (2 if op == "/" else 1)
        return shrinks and (op == "/" or stride.high < 32) and _stops_at_zero(e, loop, name)
    return any(
        _passes(op, test, first, stride, _bound(e, bound, kind), whole_range(kind))
        for test, bound in _bounds(loop.condition, name)
    )


def _head(
    e: Evaluation, loop: Loop, starts: Mapping[str, AbstractValue]
) -> tuple[str, str, str, Range, Range] | None:
    """Name, operator, type, first value and stride of a counter that only the head assigns."""
    match loop.after:
        case (Assign(Name(name), Binary(op, Name(old), step)),) if name == old:
            start = starts.get(name)
        case _:
            return None
    if start is None or start.expr is None or name in {*assigned_in(loop.body), *e.scopes[0]}:
        return None
    kind, by = start.kind, e.value(step).expr
    if kind not in ("u32", "i32") or by is None:
        return None
    return name, op, kind, e.facts.range(start.expr), e.facts.range(by)


def _bounds(condition: Expr, name: str) -> Iterator[tuple[str, Expr]]:
    """Comparisons of a variable that all must hold for the condition to hold."""
    match condition:
        case Binary("&&", left, right):
            yield from _bounds(left, name)
            yield from _bounds(right, name)
        case Binary("<" | "<=" | ">" | ">=" as op, Name(left_name), bound) if left_name == name:
            yield op, bound
        case Binary("<" | "<=" | ">" | ">=" as op, bound, Name(right_name)) if right_name == name:
            yield _MIRRORED[op], bound


def _bound(e: Evaluation, bound: Expr, kind: str) -> Range:
    expr = e.value(bound).expr
    return whole_range(kind) if expr is None else e.facts.range(expr)


def _passes(op: str, test: str, first: Range, stride: Range, bound: Range, whole: Range) -> bool:
    """The values that pass a test do not wrap around in the next step, which moves them on."""
    most = bound.high - int(test == "<")
    least = bound.low + int(test == ">")
    if op == "+":
        return test in ("<", "<=") and stride.low > 0 and most + stride.high <= whole.high
    if op == "-":
        return test in (">", ">=") and stride.low > 0 and least - stride.high >= whole.low
    if op == "*":
        grows = test in ("<", "<=") and first.low > 0 and stride.low > 1
        return grows and most * stride.high <= whole.high
    return False


def _stops_at_zero(e: Evaluation, loop: Loop, name: str) -> bool:
    variable = e.lookup(name)
    assert variable is not None
    value, facts = variable.value, e.facts
    variable.value = e.opaque(value.kind, name, False, single(0))
    condition = e.value(loop.condition).expr
    stops = condition is not None and facts.truth(condition) is False
    variable.value = value
    return stops
