"""Puts the body of a function where it is called.

A function that declares values and returns one at its end can be inlined where the call is all of
the value that a statement binds, assigns or returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from wgcc.kernel.rewrite.substitute import Filling, rename, substitute, substitute_body
from wgcc.kernel.rewrite.transform import Body, declared_in, map_statements, names_in
from wgcc.kernel.tree import (
    Assign,
    Call,
    Expr,
    FunctionDef,
    Let,
    Literal,
    Member,
    Name,
    Return,
    Run,
    Statement,
    statements_of,
)


def inline(body: Iterable[Statement], functions: Mapping[str, FunctionDef]) -> Body:
    """All calls of functions replaced; names that these declare become unique."""
    body = tuple(body)
    taken = declared_in(body) | names_in(body)

    def one(statement: Statement) -> Body:
        call = _called(statement)
        if call is None or call.name not in functions:
            return (statement,)
        before, value = _expand(functions[call.name], call, taken)
        if not isinstance(statement, Let | Assign | Return):
            return before
        assert value is not None, f"{call.name} returns nothing"
        return (*before, replace(statement, value=value))

    return map_statements(body, one)


def _called(statement: Statement) -> Call | None:
    match statement:
        case (
            Let(value=Call() as call) | Assign(value=Call() as call) | Return(value=Call() as call)
        ):
            return call
        case Run(Call() as call):
            return call
    return None


def _expand(function: FunctionDef, call: Call, taken: set[str]) -> tuple[Body, Expr | None]:
    """The statements of a function, and what it returns. Arguments get names, if they have none."""
    statements: list[Statement] = []
    holes: dict[str, Filling] = {}
    for (name, _), arg in zip(function.params, call.args, strict=True):
        if not isinstance(arg, Name | Literal | Member):
            own = _fresh(name, taken)
            statements.append(Let(own, None, arg, mutable=False))
            arg = Name(own)
        holes[name] = arg
    *body, last = function.body
    value = last.value if isinstance(last, Return) else None
    kept = tuple(body) if isinstance(last, Return) else function.body
    if any(isinstance(statement, Return) for statement in statements_of(kept)):
        raise ValueError(f"{function.name} returns before its end")
    names = {name: _fresh(name, taken) for name in sorted(declared_in(kept))}
    statements += substitute_body(rename(kept, names), holes)
    if value is not None:
        value = substitute(substitute(value, names), holes)
    return tuple(statements), value


def _fresh(name: str, taken: set[str]) -> str:
    new, number = name, 0
    while new in taken:
        number += 1
        new = f"{name}_{number}"
    taken.add(new)
    return new
