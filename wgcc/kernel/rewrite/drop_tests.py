"""Removes tests that always or never hold, given the ranges of names.

What a loop counts and what a `let` computes have ranges of their own, so that
`if (m_tile + lane.y < ROWS)` goes where tiles divide the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from wgcc.kernel.ranges import Range, Ranges, narrowed, range_of, truth_of
from wgcc.kernel.rewrite.substitute import rename
from wgcc.kernel.rewrite.transform import Body, declared_in, map_expression, with_expressions
from wgcc.kernel.tree import (
    Assign,
    Binary,
    Call,
    Expr,
    If,
    Let,
    Literal,
    Loop,
    Name,
    Return,
    Statement,
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
            found = range_of(value, ranges) if value is not None and not mutable else None
            rest = {n: r for n, r in ranges.items() if n != name}
            return rest if found is None else {**rest, name: found}
        case If(condition, then, ()) if _leaves(then):
            return _where_not(condition, ranges)
    assigned = assigned_in((statement,))
    return {n: r for n, r in ranges.items() if n not in assigned} if assigned else ranges


def inside_loop(loop: Loop, ranges: Ranges) -> Ranges:
    """What is known in the body of a loop: its counter, and nothing of what it assigns."""
    assigned = assigned_in((*loop.body, *loop.after))
    inner = {n: r for n, r in ranges.items() if n not in assigned}
    match loop:
        case Loop((Let(name, _, first, True),), Binary("<", Name(counter), end), (Assign(),), body):
            start = None if first is None else range_of(first, ranges)
            stop = range_of(end, inner)
            is_counter = name == counter and name not in assigned_in(body)
            if is_counter and start and stop and stop.high > start.low:
                return {**inner, name: Range(start.low, stop.high - 1)}
    return inner


def assigned_in(body: Body) -> set[str]:
    targets = (s.target for s in statements_of(body) if isinstance(s, Assign))
    return {target.name for target in targets if isinstance(target, Name)}


def _statement(statement: Statement, ranges: Ranges) -> Body:
    statement = with_expressions(statement, lambda expr: _decided(expr, ranges))
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
