"""Writes out the iterations of loops whose number is known.

    for (var i = 0u; i < 2u; i++) { let a = x[i]; s += a; }

becomes `let a0 = x[0u]; s += a0; let a1 = x[1u]; s += a1;`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from wgcc.kernel.ranges import Ranges, value_of
from wgcc.kernel.rewrite.fold import fold_body
from wgcc.kernel.rewrite.substitute import rename, substitute_body
from wgcc.kernel.rewrite.transform import Body, map_statements
from wgcc.kernel.tree import Let, Literal, Loop, Statement, counted

Chosen = Callable[[Loop], bool]


def unroll(body: Iterable[Statement], ranges: Ranges, chosen: Chosen = lambda loop: True) -> Body:
    """Innermost loops first. `ranges` has the constants that heads of loops name."""

    def one(statement: Statement) -> Body:
        if isinstance(statement, Loop) and chosen(statement):
            iterations = iterations_of(statement, ranges)
            if iterations is not None:
                return unroll_loop(statement, *iterations)
        return (statement,)

    return map_statements(body, one)


def iterations_of(loop: Loop, ranges: Ranges) -> tuple[str, range] | None:
    """The counter of a loop and the numbers it takes, if these are known."""
    head = counted(loop)
    if head is None:
        return None
    start, stop, by = (value_of(expr, ranges) for expr in head[1:])
    return None if start is None or stop is None or not by else (head[0], range(start, stop, by))


def unroll_loop(loop: Loop, counter: str, numbers: Iterable[int]) -> Body:
    declared = {s.name for s in loop.body if isinstance(s, Let)}
    statements: list[Statement] = []
    for i, number in enumerate(numbers):
        names = {name: numbered(name, i) for name in declared}
        body = substitute_body(loop.body, {counter: Literal(number, "u32")})
        statements += rename(fold_body(body), names)
    return tuple(statements)


def numbered(name: str, number: int) -> str:
    """`a0` of `a`, `a0_1` of `a0`."""
    return f"{name}_{number}" if name[-1].isdigit() else f"{name}{number}"
