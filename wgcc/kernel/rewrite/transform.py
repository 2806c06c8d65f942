"""Applies a function to every expression or statement of a tree, innermost first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import is_
from typing import Any

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
    Name,
    Return,
    Run,
    Statement,
    Unary,
    root_of,
    statements_of,
)

Body = tuple[Statement, ...]
ChangeExpr = Callable[[Expr], Expr]
ChangeBody = Callable[[Body], Body]


def with_children(expr: Expr, change: ChangeExpr) -> Expr:
    """An expression whose operands were changed: itself, if they are the same."""
    match expr:
        case Unary(op, operand, parens):
            new = change(operand)
            return expr if new is operand else Unary(op, new, parens)
        case Binary(op, left, right, parens):
            first, second = change(left), change(right)
            is_same = first is left and second is right
            return expr if is_same else Binary(op, first, second, parens)
        case Call(name, args, tall):
            changed = tuple(map(change, args))
            return expr if all(map(is_, changed, args)) else Call(name, changed, tall)
        case Member(whole, field):
            new = change(whole)
            return expr if new is whole else Member(new, field)
        case Element(whole, index):
            first, second = change(whole), change(index)
            is_same = first is whole and second is index
            return expr if is_same else Element(first, second)
    return expr


def map_expression(expr: Expr, change: ChangeExpr) -> Expr:
    return change(with_children(expr, lambda inner: map_expression(inner, change)))


def with_expressions(statement: Statement, change: ChangeExpr) -> Statement:
    """A statement whose own expressions were changed; not those of statements inside it."""
    match statement:
        case Let(value=value) | Return(value=value):
            new = None if value is None else change(value)
            return statement if new is value else replace(statement, value=new)
        case Assign(target, value):
            place, new = change(target), change(value)
            if place is target and new is value:
                return statement
            return replace(statement, target=place, value=new)
        case If(condition) | Loop(_, condition):
            new = change(condition)
            return statement if new is condition else replace(statement, condition=new)
        case Run(call):
            new = change(call)
            return statement if new is call else replace(statement, call=new)


def with_bodies(statement: Statement, change: ChangeBody) -> Statement:
    """A statement with the blocks inside it changed, the head of a loop among them."""
    match statement:
        case If():
            return replace(statement, then=change(statement.then), other=change(statement.other))
        case Loop():
            before, after = change(statement.before), change(statement.after)
            return replace(statement, before=before, after=after, body=change(statement.body))
    return statement


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


def with_own_nodes(module: Module) -> Module:
    """The same tree without nodes that stand at several places, so that a node is a place.

    What `x += a` reads and writes is one place.
    """
    return Module(_copy(module.declarations))


def _copy(node: Any) -> Any:
    match node:
        case tuple():
            return tuple(map(_copy, node))
        case Assign(target, Binary(_, left, right) as value) if left is target:
            own = _copy(target)
            return replace(node, target=own, value=replace(value, left=own, right=_copy(right)))
    slots = getattr(node, "__slots__", ())
    return type(node)(*(_copy(getattr(node, slot)) for slot in slots)) if slots else node


def assigned_in(body: Body) -> set[str]:
    """The variables that are assigned, or a part of which is."""
    places = (s.target for s in statements_of(body) if isinstance(s, Assign))
    return {root.name for root in map(root_of, places) if isinstance(root, Name)}
