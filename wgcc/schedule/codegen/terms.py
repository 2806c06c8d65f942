"""Types, numbers and positions as they stand in kernels, and the grids that they are launched on.

At most 65,535 workgroups are launched along an axis: longer lines are folded into rows. Loops that
have too many iterations for software adapters take several elements in each.
"""

from __future__ import annotations

from functools import lru_cache

from wgcc.ir.index import Atom, Index, Quotient, Variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import expression, in_parens, member, u32
from wgcc.kernel.tree import Binary, Call, Expr, names_of
from wgcc.ops.checks import literal, wgsl_type
from wgcc.schedule.kernel import GOOD_ITERATIONS, MAX_WORKGROUPS

__all__ = [
    "MAX_UNROLLED", "Grid", "clamp_index", "element_type", "expr_of", "grid_of", "is_number",
    "number", "thread_index", "unroll_times", "wgsl_type", "zero",
]  # fmt: skip


def element_type(dtype: str) -> str:
    """The type of the word that holds an element in a buffer."""
    return "u32" if dtype == "bool" else wgsl_type(dtype)


def number(value: float | int | bool, dtype: str) -> Expr:
    return expression(literal(value, dtype))


def zero(dtype: str) -> Expr:
    return number(0, dtype)


def is_number(expr: Expr) -> bool:
    return not names_of(expr)


def clamp_index(index: Expr, limit: int, dtype: str) -> Expr:
    """A run-time index of some integer type as a u32 that is at most `limit`."""
    if wgsl_type(dtype) == "u32":
        return Call("min", (index, u32(limit)))
    return expression("u32(clamp(INDEX, 0, LIMIT))", INDEX=index, LIMIT=expression(f"{limit}"))


@lru_cache(maxsize=16384)
def expr_of(index: Index) -> Expr:
    """A position as a u32 expression."""
    gains = [_term(atom, factor) for atom, factor in index.terms if factor > 0]
    losses = [_term(atom, -factor) for atom, factor in index.terms if factor < 0]
    if index.offset > 0 or not gains:
        gains.append(u32(max(index.offset, 0)))
    if index.offset < 0:
        losses.append(u32(-index.offset))
    total, *others = gains
    for other in others:
        total = Binary("+", total, other)
    for loss in losses:
        total = Binary("-", total, loss)
    return total


def _term(atom: Atom, factor: int) -> Expr:
    expr = _atom(atom)
    return expr if factor == 1 else Binary("*", expr, u32(factor))


def _atom(atom: Atom) -> Expr:
    if isinstance(atom, Variable):
        return member(atom.name)
    op = "/" if isinstance(atom, Quotient) else "%"
    dividend = in_parens(expr_of(atom.dividend.compared()))
    return Binary(op, dividend, u32(atom.divisor), parens=True)


Grid = tuple[int, int, int]
# Longer bodies take too long to compile.
MAX_UNROLLED = 64


def unroll_times(iterations: int) -> int:
    """How many elements one iteration should take in loops over `iterations` elements in all."""
    times = 1
    while iterations > times * GOOD_ITERATIONS and times < MAX_UNROLLED:
        times *= 2
    return times


def grid_of(workgroups: int) -> Grid:
    """A line of workgroups, folded into rows when it is too long."""
    if workgroups <= MAX_WORKGROUPS:
        return (workgroups, 1, 1)
    rows = ceil_div(workgroups, MAX_WORKGROUPS)
    return (ceil_div(workgroups, rows), rows, 1)


def thread_index(grid: Grid, threads: int) -> Expr:
    """The number of a thread (`id`: global_invocation_id), or of a workgroup (`threads` = 1)."""
    if grid[1] == 1:
        return expression("id.x")
    return expression("id.y * WIDTH + id.x", WIDTH=u32(grid[0] * threads))
