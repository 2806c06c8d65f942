"""Builds trees: quoted WGSL, whose holes trees fill, and the statements that kernels are made of.

    statements("if (ROW == AT) { BODY(); }", ROW=row, AT=position, BODY=add)

A quotation is parsed once. Its holes are names and calls in capitals, as on a page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from wgcc.kernel.parse import parse_expression, parse_module, parse_statements
from wgcc.kernel.rewrite.transform import (
    Body,
    Filling,
    fill,
    map_functions,
    map_statements,
    substitute,
    substitute_body,
)
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
    counting_head,
)

_REASON = "because software adapters end loops after 65,535 iterations."
SEVERAL, WRITTEN_OUT = f"Several per iteration, {_REASON}", f"Without a loop, {_REASON}"
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


def member(text: str) -> Expr:
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
    if times == 1:
        return loop
    counter, start, end, step = _head(loop)
    first = f"{counter}_first"
    onward = _steps(stride or u32(times), step)
    return counted_loop(first, start, end, _copies(loop, Name(first), times), onward)


def at_once(loop: Loop, times: int, even: Expr | None = None) -> Body:
    """A counted loop that takes `times` numbers per iteration, of which a multiple is left.

    Nothing between them is asked, so that their loads are under way at once. `even`: so far there
    is a multiple; another loop takes what comes after it.
    """
    counter, start, end, step = _head(loop)
    first = Name(f"{counter}_first")
    body: list[Statement] = []
    for number in range(times):
        at = Binary("+", first, _steps(u32(number), step)) if number else first
        body += _with_number((let(counter, at), *loop.body), number)
    several_rows = counted_loop(first.name, start, even or end, body, _steps(u32(times), step))
    if even is None:
        return (several_rows,)
    return (several_rows, counted_loop(counter, Binary("+", start, even), end, loop.body, step))


def _with_number(body: Body, number: int) -> Iterator[Statement]:
    """The statements with this number behind the names that they declare."""
    names: dict[str, Filling] = {}
    for statement in body:
        (changed,) = substitute_body((statement,), names)
        if isinstance(changed, Let):
            name = f"{changed.name}_{number}"
            names[changed.name] = Name(name)
            changed = replace(changed, name=name)
        yield changed


def take_several(page: Module, counters: Collection[str], times: int) -> Module:
    """Loops of a page that count by these names take UNROLLED numbers per iteration."""

    def change(loop: Loop) -> Body:
        return (replace(several(loop, times, Name("UNROLLED")), comment=SEVERAL),)

    return page if times == 1 else _change_loops(page, counters, change)


def write_out(page: Module, counters: Collection[str], times: int) -> Module:
    """Loops that make at most `times` iterations, without a loop."""

    def change(loop: Loop) -> Body:
        first, *others = _copies(loop, _head(loop)[1], times)
        return (replace(first, comment=WRITTEN_OUT), *others)

    return _change_loops(page, counters, change)


def _copies(loop: Loop, first: Expr, times: int) -> list[If]:
    """The body for each number from `first` on that is below the end."""
    counter, _, end, step = _head(loop)
    copies = []
    for number in range(times):
        at = Binary("+", first, _steps(u32(number), step))
        copies.append(If(Binary("<", at, end), (let(counter, at), *loop.body)))
    return copies


def _steps(count: Expr, step: Expr) -> Expr:
    return count if step == ONE else Binary("*", count, step)


def _head(loop: Loop) -> tuple[str, Expr, Expr, Expr]:
    head = counting_head(loop)
    assert head is not None, "a loop that counts"
    return head


def _change_loops(
    page: Module, counters: Collection[str], change: Callable[[Loop], Body]
) -> Module:
    def one(statement: Statement) -> Body:
        if isinstance(statement, Loop):
            head = counting_head(statement)
            if head is not None and head[0] in counters:
                return change(statement)
        return (statement,)

    return map_functions(page, lambda body: map_statements(body, one))
