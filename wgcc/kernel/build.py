"""Builds trees: quoted WGSL, whose holes trees fill, and the statements that kernels are made of.

    statements("if (ROW == AT) { BODY(); }", ROW=row, AT=position, BODY=add)

A quotation is parsed once. Its holes are names and calls in capitals, as on a page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from wgcc.kernel.parse import parse_expression, parse_module, parse_statements
from wgcc.kernel.rewrite.substitute import Filling, fill, substitute, substitute_body
from wgcc.kernel.rewrite.transform import Body, map_functions, map_statements
from wgcc.kernel.tree import (
    Assign,
    Binary,
    Call,
    Declaration,
    Expr,
    If,
    Let,
    Literal,
    Loop,
    Member,
    Module,
    Name,
    Statement,
    Unary,
    counted,
)

SEVERAL = "Several per iteration, because software adapters end loops after 65,535 iterations."
ONE = Literal(1, "int")


def statements(text: str, **holes: Filling) -> Body:
    parsed = parse_statements(text)
    return substitute_body(parsed, holes) if holes else parsed


def expression(text: str, **holes: Filling) -> Expr:
    parsed = parse_expression(text)
    return substitute(parsed, holes) if holes else parsed


def functions(text: str, **holes: Filling) -> tuple[Declaration, ...]:
    """Functions, or other declarations."""
    parsed = parse_module(text)
    return fill(parsed, holes).declarations if holes else parsed.declarations


def pattern(text: str, *operands: Expr, **named: Expr) -> Expr:
    """The expression of an op, with operands for `{0}`, `{1}` and named ones for `{i}`."""
    holes = {f"{{{key}}}": operand for key, operand in (*enumerate(operands), *named.items())}
    return substitute(parse_expression(text), holes)


def u32(number: int) -> Literal:
    return Literal(number, "u32")


def named(text: str) -> Expr:
    """A name, or a member of one: `round.x`."""
    first, *fields = text.split(".")
    expr: Expr = Name(first)
    for field in fields:
        expr = Member(expr, field)
    return expr


def in_parens(expr: Expr) -> Expr:
    return replace(expr, parens=True) if isinstance(expr, Unary | Binary) else expr


def all_of(conditions: Iterable[Expr | None]) -> Expr | None:
    """They hold all; None if there are none."""
    joined: Expr | None = None
    for condition in conditions:
        if condition is not None:
            joined = condition if joined is None else Binary("&&", joined, condition)
    return joined


def when(condition: Expr | None, body: Body, one_line: bool = True) -> Body:
    """Statements under a condition, if there is one."""
    return body if condition is None else (If(condition, body, one_line=one_line),)


def let(name: str, value: Expr) -> Let:
    return Let(name, None, value, mutable=False)


def select(no: Expr, yes: Expr, condition: Expr) -> Call:
    return Call("select", (no, yes, condition))


def counted_loop(
    counter: str, start: Expr, end: Expr, body: Iterable[Statement], step: Expr = ONE
) -> Loop:
    """`for (var counter = start; counter < end; counter += step)`."""
    own = Name(counter)
    onward = Assign(own, Binary("+", own, step), compound=True)
    first = Let(counter, None, start, mutable=True)
    return Loop((first,), Binary("<", own, end), (onward,), tuple(body))


def several(loop: Loop, times: int, stride: Expr | None = None) -> Loop:
    """A counted loop that takes `times` numbers per iteration, as long as so many are left.

    `stride` is another way to write `times`.
    """
    head = counted(loop)
    assert head is not None, "a loop that counts"
    if times == 1:
        return loop
    counter, start, end, step = head
    first = f"{counter}_first"

    def steps(count: Expr) -> Expr:
        return count if step == ONE else Binary("*", count, step)

    body = []
    for number in range(times):
        at = Binary("+", Name(first), steps(u32(number)))
        body.append(If(Binary("<", at, end), (let(counter, at), *loop.body)))
    return counted_loop(first, start, end, body, steps(stride or u32(times)))


def take_several(module: Module, counters: Collection[str], times: int) -> Module:
    """All loops of a page that count by these names, with UNROLLED numbers per iteration."""
    if times == 1:
        return module

    def one(statement: Statement) -> Body:
        if isinstance(statement, Loop):
            head = counted(statement)
            if head is not None and head[0] in counters:
                loop = several(statement, times, Name("UNROLLED"))
                return (replace(loop, comment=SEVERAL),)
        return (statement,)

    return map_functions(module, lambda body: map_statements(body, one))
