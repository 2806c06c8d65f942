"""Fills the holes of a page, and replaces names by what they stand for.

    let o = INDEX;      with INDEX bound to `id.y * 4096u + id.x`
    BODY();             with BODY bound to statements
    let q = x0[i];      with x0 bound to the name `keys`

A name is replaced where the block it is in does not declare it anew. What replaces it must not
contain names that a block inside declares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from wgcc.kernel.rewrite.transform import Body, with_bodies, with_children, with_expressions
from wgcc.kernel.tree import (
    Alias,
    Call,
    Constant,
    Declaration,
    Expr,
    FunctionDef,
    Let,
    Literal,
    Loop,
    Module,
    ModuleVariable,
    Name,
    Run,
    Statement,
    Struct,
)

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
        case Constant():
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
