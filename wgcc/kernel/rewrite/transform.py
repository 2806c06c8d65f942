"""Applies a function to every expression or statement of a tree, innermost first; fills holes.

    let o = INDEX;      with INDEX bound to `id.y * 4096u + id.x`
    BODY();             with BODY bound to statements
    let q = x0[i];      with x0 bound to the name `keys`

A name is replaced where the block it is in does not declare it anew. What replaces it must not
contain names that a block inside declares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import is_
from typing import Any

from wgcc.kernel.tree import (
    Alias,
    Assign,
    Binary,
    Call,
    ConstantDef,
    Declaration,
    Element,
    Expr,
    FunctionDef,
    If,
    Let,
    Literal,
    Loop,
    Member,
    Module,
    ModuleVariable,
    Name,
    Return,
    Run,
    Statement,
    Struct,
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


# A name, a whole number (as u32), an expression or statements.
Filling = str | int | Expr | Body
Holes = Mapping[str, Filling]
_WORD = re.compile(r"[A-Za-z_]\w*")


def fill(module: Module, holes: Holes) -> Module:
    """A page with its holes filled."""
    return Module(tuple(_declaration(declared, holes) for declared in module.declarations))


def substitute(expr: Expr, holes: Holes) -> Expr:
    match expr:
        case Name(name) if name in holes:
            return _expression(holes[name])
        case Call():
            inner = with_children(expr, lambda part: substitute(part, holes))
            assert isinstance(inner, Call)
            name = _type(expr.name, holes)
            return inner if name == expr.name else replace(inner, name=name)
    return with_children(expr, lambda part: substitute(part, holes))


def substitute_body(body: Iterable[Statement], holes: Holes) -> Body:
    statements: list[Statement] = []
    for statement in body:
        if isinstance(statement, Run) and isinstance(filling := _hole(statement, holes), tuple):
            statements += filling
            continue
        statements.append(_statement(statement, holes))
        if isinstance(statement, Let):
            holes = _without(holes, statement.name)
    return tuple(statements)


def _statement(statement: Statement, holes: Holes) -> Statement:
    if isinstance(statement, Loop) and statement.before:
        return _loop(statement, holes)
    inner = with_bodies(statement, lambda body: substitute_body(body, holes))
    filled = with_expressions(inner, lambda expr: substitute(expr, holes))
    if isinstance(filled, Let) and filled.kind:
        return replace(filled, kind=_type(filled.kind, holes))
    return filled


def _loop(loop: Loop, holes: Holes) -> Loop:
    """The whole loop sees the variables that its head declares."""
    before = substitute_body(loop.before, holes)
    for statement in loop.before:
        if isinstance(statement, Let):
            holes = _without(holes, statement.name)
    condition = substitute(loop.condition, holes)
    after, body = substitute_body(loop.after, holes), substitute_body(loop.body, holes)
    return replace(loop, before=before, condition=condition, after=after, body=body)


def _without(holes: Holes, name: str) -> Holes:
    return {n: f for n, f in holes.items() if n != name} if name in holes else holes


def _declaration(declared: Declaration, holes: Holes) -> Declaration:
    match declared:
        case ConstantDef():
            return replace(declared, value=substitute(declared.value, holes))
        case Alias() | ModuleVariable():
            return replace(declared, kind=_type(declared.kind, holes))
        case Struct():
            fields = tuple((name, _type(kind, holes)) for name, kind in declared.fields)
            return replace(declared, fields=fields)
        case FunctionDef():
            inner = holes
            for name, _ in declared.params:
                inner = _without(inner, name)
            return replace(
                declared,
                name=_type(declared.name, holes),
                params=tuple((name, _type(kind, holes)) for name, kind in declared.params),
                result=_type(declared.result, holes) if declared.result else None,
                body=substitute_body(declared.body, inner),
                workgroup=tuple(substitute(size, holes) for size in declared.workgroup),
            )
    return declared


def _hole(statement: Run, holes: Holes) -> Filling | None:
    call = statement.call
    return holes.get(call.name) if isinstance(call, Call) and not call.args else None


def _expression(filling: Filling) -> Expr:
    match filling:
        case str():
            return Name(filling)
        case int():
            return Literal(filling, "u32")
        case tuple():
            raise TypeError("statements cannot stand where a value is wanted")
    return filling


def _type(kind: str, holes: Holes) -> str:
    """Types are text: names inside them are replaced by names and numbers."""

    def word(match: re.Match[str]) -> str:
        filling = holes.get(match[0])
        return str(filling) if isinstance(filling, str | int) else match[0]

    return _WORD.sub(word, kind)
