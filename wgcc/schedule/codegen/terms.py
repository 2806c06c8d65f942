"""Types, numbers and positions as they stand in kernels."""

from __future__ import annotations

from functools import lru_cache

from wgcc.ir.index import Atom, Index, Quotient, Variable
from wgcc.kernel.build import expression, in_parens, member, u32
from wgcc.kernel.tree import Binary, Call, Expr, names_of
from wgcc.ops.checks import literal, wgsl_type

__all__ = ["clamp_index", "element_type", "expr_of", "is_number", "number", "wgsl_type", "zero"]


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
