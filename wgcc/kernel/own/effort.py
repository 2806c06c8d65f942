"""How many operations a function takes, if every branch is computed and every call is inlined.

The twin does so where it computes four elements at once. After an `if` that may return, the rest of
the function is computed for each way that leads there.
"""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import (
    Call,
    Expr,
    FunctionDef,
    If,
    Loop,
    Return,
    Statement,
    expressions_of,
    parts_of,
    statements_of,
)

MOST = 10_000


def effort(function: FunctionDef, rounds: Mapping[int, int], called: Mapping[str, int]) -> int:
    """`called` has the efforts of the functions that it calls, by their names in kernels."""
    return 1 + _body(function.body, rounds, called)[0]


def _body(body: Body, rounds: Mapping[int, int], called: Mapping[str, int]) -> tuple[int, int]:
    """The operations, and the number of ways that lead to the end."""
    total, ways = 0, 1
    for statement in body:
        operations, onward = _statement(statement, rounds, called)
        total += ways * operations
        ways *= onward
    return total, ways


def _statement(
    statement: Statement, rounds: Mapping[int, int], called: Mapping[str, int]
) -> tuple[int, int]:
    own = sum(_expression(expr, called) for expr in expressions_of(statement))
    match statement:
        case Return():
            return own, 0
        case If(_, then, other):
            (first, ways), (second, others) = (_body(b, rounds, called) for b in (then, other))
            returns = any(isinstance(s, Return) for s in statements_of((statement,)))
            return own + first + second, ways + others if returns else 1
        case Loop(_, _, after, inner):
            inside = own + _body((*inner, *after), rounds, called)[0]
            return rounds[id(statement)] * inside, 1
    return own, 1


def _expression(expr: Expr, called: Mapping[str, int]) -> int:
    parts = list(parts_of(expr))
    calls = (called.get(part.name, 0) for part in parts if isinstance(part, Call))
    return len(parts) + sum(calls)
