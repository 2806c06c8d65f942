"""Applies a function to every expression or statement of a tree, innermost first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from wgcc.kernel.tree import (
    Assign,
    Binary,
    Call,
    Element,
    Expr,
    FunctionDef,
    If,
    Let,
    Loop,
    Member,
    Module,
    Return,
    Run,
    Statement,
    Unary,
    expressions_of,
    names_of,
    statements_of,
)

Body = tuple[Statement, ...]
ChangeExpr = Callable[[Expr], Expr]
ChangeBody = Callable[[Body], Body]


def with_children(expr: Expr, change: ChangeExpr) -> Expr:
    """An expression whose operands were changed."""
    match expr:
        case Unary():
            return replace(expr, operand=change(expr.operand))
        case Binary():
            return replace(expr, left=change(expr.left), right=change(expr.right))
        case Call():
            return replace(expr, args=tuple(map(change, expr.args)))
        case Member():
            return replace(expr, whole=change(expr.whole))
        case Element():
            return Element(change(expr.whole), change(expr.index))
    return expr


def map_expression(expr: Expr, change: ChangeExpr) -> Expr:
    return change(with_children(expr, lambda inner: map_expression(inner, change)))


def with_expressions(statement: Statement, change: ChangeExpr) -> Statement:
    """A statement whose own expressions were changed; not those of statements inside it."""
    match statement:
        case Let() | Return():
            if statement.value is None:
                return statement
            return replace(statement, value=change(statement.value))
        case Assign():
            return replace(
                statement, target=change(statement.target), value=change(statement.value)
            )
        case If() | Loop():
            return replace(statement, condition=change(statement.condition))
        case Run():
            return replace(statement, call=change(statement.call))


def with_bodies(statement: Statement, change: ChangeBody) -> Statement:
    """A statement with the blocks inside it changed, the head of a loop among them."""
    match statement:
        case If():
            return replace(statement, then=change(statement.then), other=change(statement.other))
        case Loop():
            before, after = change(statement.before), change(statement.after)
            return replace(statement, before=before, after=after, body=change(statement.body))
    return statement


def map_body(body: Iterable[Statement], change: ChangeExpr) -> Body:
    """All expressions of statements changed, those of inner statements too."""

    def expression(expr: Expr) -> Expr:
        return map_expression(expr, change)

    def one(statement: Statement) -> Statement:
        inner = with_bodies(statement, lambda body: map_body(body, change))
        return with_expressions(inner, expression)

    return tuple(map(one, body))


def map_statements(body: Iterable[Statement], change: Callable[[Statement], Body]) -> Body:
    """Each statement replaced by any number of others, innermost first."""

    def one(statement: Statement) -> Body:
        return change(with_bodies(statement, lambda inner: map_statements(inner, change)))

    return tuple(new for statement in body for new in one(statement))


def map_functions(module: Module, change: ChangeBody) -> Module:
    """The bodies of all functions changed."""
    return Module(
        tuple(
            replace(declared, body=change(declared.body))
            if isinstance(declared, FunctionDef)
            else declared
            for declared in module.declarations
        )
    )


def declared_in(body: Body) -> set[str]:
    """The names that statements declare, inner blocks included."""
    return {s.name for s in statements_of(body) if isinstance(s, Let)}


def names_in(body: Body) -> set[str]:
    """The names that statements use, inner blocks included."""
    exprs = (expr for statement in statements_of(body) for expr in expressions_of(statement))
    return {name for expr in exprs for name in names_of(expr)}
