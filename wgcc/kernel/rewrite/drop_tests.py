"""Removes tests that always or never hold, given the ranges of names.

What a loop counts and what a `let` computes have ranges of their own, so that
`if (m_tile + lane.y < ROWS)` goes where tiles divide the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from wgcc.kernel.ranges import LIMIT, Range, Ranges, is_u32, narrowed, range_of, truth_of
from wgcc.kernel.rewrite.substitute import rename
from wgcc.kernel.rewrite.transform import Body, declared_in, map_expression, with_expressions
from wgcc.kernel.tree import (
    Assign,
    Binary,
    Call,
    Element,
    Expr,
    If,
    Let,
    Literal,
    Loop,
    Member,
    Name,
    Return,
    Statement,
    counted,
    statements_of,
)


def drop_tests(body: Iterable[Statement], ranges: Ranges) -> Body:
    statements: list[Statement] = []
    taken: set[str] = set()
    for statement in body:
        new = _statement(statement, ranges)
        if new != (statement,) and isinstance(statement, If):
            new = _apart(new, taken)
        statements += new
        taken |= {s.name for s in new if isinstance(s, Let)}
        ranges = known_after(statement, ranges)
    return tuple(statements)


def known_after(statement: Statement, ranges: Ranges) -> Ranges:
    """What is known of names after a statement."""
    match statement:
        case Let(name, _, value, mutable):
            rest = _without({name}, ranges)
            if value is None or mutable or not is_u32(value, ranges):
                return rest
            result = range_of(value, ranges)
            return rest if result is None else {**rest, name: result}
        case If(condition, then, ()) if _leaves(then):
            return _where_not(condition, ranges)
    return _without(assigned_in((statement,)), ranges)


def inside_loop(loop: Loop, ranges: Ranges) -> Ranges:
    """What is known in the body of a loop: its counter, and nothing of what it assigns."""
    inner = _unchanged(loop, ranges)
    head = counted(loop)
    if head is None or head[0] in assigned_in(loop.body):
        return inner
    name, first, end, step = head
    start, stop, stride = range_of(first, ranges), range_of(end, inner), range_of(step, inner)
    is_whole = is_u32(first, ranges) or is_u32(end, inner)
    if not is_whole or start is None or stop is None or stride is None or stop.high <= start.low:
        return inner
    # A sum beyond the largest number would be small again.
    low = start.low if stop.high - 1 + stride.high < LIMIT else 0
    return {**inner, name: Range(low, stop.high - 1)}


def _unchanged(loop: Loop, ranges: Ranges) -> Ranges:
    """The ranges that hold in all iterations, and when the loop ends."""
    return _without(assigned_in((loop,)) | declared_in(loop.before), ranges)


def assigned_in(body: Body) -> set[str]:
    """The variables that are assigned, or a part of which is."""
    roots = set()
    for statement in statements_of(body):
        if isinstance(statement, Assign):
            target = statement.target
            while isinstance(target, Member | Element):
                target = target.whole
            roots |= {target.name} if isinstance(target, Name) else set()
    return roots


def _without(names: set[str], ranges: Ranges) -> Ranges:
    if not names:
        return ranges
    return {text: known for text, known in ranges.items() if text.split(".")[0] not in names}


def _statement(statement: Statement, ranges: Ranges) -> Body:
    # The condition of a loop is also tested after what the loop assigns.
    tested = _unchanged(statement, ranges) if isinstance(statement, Loop) else ranges
    statement = with_expressions(statement, lambda expr: _decided(expr, tested))
    match statement:
        case If(Literal(value, "bool"), then, other):
            return drop_tests(then if value else other, ranges)
        case If(condition, then, other):
            then = drop_tests(then, narrowed(condition, ranges))
            return (replace(statement, then=then, other=drop_tests(other, ranges)),)
        case Loop():
            inner = inside_loop(statement, ranges)
            return (replace(statement, body=drop_tests(statement.body, inner)),)
    return (statement,)


def _decided(expr: Expr, ranges: Ranges) -> Expr:
    """With what is known of `&&`, `||`, `!` and `select` computed."""

    def change(inner: Expr) -> Expr:
        match inner:
            case Binary("&&", left, right):
                if truth_of(left, ranges):
                    return right
                if truth_of(right, ranges):
                    return left
            case Call("select", (no, yes, condition)):
                truth = truth_of(condition, ranges)
                return inner if truth is None else yes if truth else no
        return inner

    changed = map_expression(expr, change)
    truth = truth_of(changed, ranges)
    return changed if truth is None else Literal(truth, "bool")


def _leaves(body: Body) -> bool:
    return bool(body) and isinstance(body[-1], Return)


def _where_not(condition: Expr, ranges: Ranges) -> Ranges:
    match condition:
        case Binary(">=", left, right):
            return narrowed(Binary("<", left, right), ranges)
        case Binary(">", left, right):
            return narrowed(Binary("<=", left, right), ranges)
    return ranges


def _apart(body: Body, taken: set[str]) -> Body:
    """What a block declared gets other names, where its surroundings have these."""
    names = {}
    for name in declared_in(body) & taken:
        number = 1
        while f"{name}_{number}" in taken:
            number += 1
        names[name] = f"{name}_{number}"
    return rename(body, names) if names else body
