"""Computes what is known: arithmetic of whole numbers, and what adds or multiplies nothing.

Floats are left alone: `x * 0.0` would hide a NaN. Names of constants stay names; `drop_tests` looks
behind them.
"""

from __future__ import annotations

from collections.abc import Iterable

from wgcc.kernel.ranges import truth_of, value_of
from wgcc.kernel.rewrite.transform import Body, map_body, map_expression
from wgcc.kernel.tree import Binary, Call, Expr, Literal, Statement, Unary

_WHOLE = ("int", "u32")
TRUE, FALSE = Literal(True, "bool"), Literal(False, "bool")


def fold(expr: Expr) -> Expr:
    return map_expression(expr, _fold)


def fold_body(body: Iterable[Statement]) -> Body:
    return map_body(body, _fold)


def _fold(expr: Expr) -> Expr:
    match expr:
        case Binary(op, Literal(_, kind), Literal(_, other)) if kind in _WHOLE and other in _WHOLE:
            truth, number = truth_of(expr, {}), value_of(expr, {})
            if truth is not None:
                return TRUE if truth else FALSE
            if number is not None:
                return Literal(number, "u32" if "u32" in (kind, other) else "int")
        case Binary("&&" | "||" as op, left, right):
            return _logical(expr, op, left, right)
        case Binary(op, left, right):
            return _neutral(expr, op, left, right)
        case Unary("!", Literal(value, "bool")):
            return FALSE if value else TRUE
        case Call("select", (no, yes, Literal(value, "bool"))):
            return yes if value else no
    return expr


def _logical(expr: Expr, op: str, left: Expr, right: Expr) -> Expr:
    decisive, neutral = (FALSE, TRUE) if op == "&&" else (TRUE, FALSE)
    if decisive in (left, right):
        return decisive
    if left == neutral:
        return right
    return left if right == neutral else expr


def _neutral(expr: Expr, op: str, left: Expr, right: Expr) -> Expr:
    if (op in ("+", "-", "<<", ">>") and _is(right, 0)) or (op in ("*", "/") and _is(right, 1)):
        return left
    if (op == "+" and _is(left, 0)) or (op == "*" and _is(left, 1)):
        return right
    if op == "%" and right == Literal(1, "u32"):
        return Literal(0, "u32")
    return expr


def _is(expr: Expr, value: int) -> bool:
    return isinstance(expr, Literal) and expr.kind in _WHOLE and expr.value == value
