"""Prints statements and expressions: the part that WGSL and C++ have in common.

Operators bind as in C, and WGSL wants more parentheses than C++ does: a tree is printed with those
that WGSL needs. A language says how it writes numbers, names, calls, members and declarations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from wgcc.kernel.parse import PRECEDENCE
from wgcc.kernel.tree import (
    Assign,
    Binary,
    Call,
    Element,
    Expr,
    If,
    Let,
    Literal,
    Loop,
    Member,
    Name,
    Return,
    Run,
    Statement,
    Unary,
)

# WGSL wants parentheses around a different operator inside these.
_ALONE = ("&", "|", "^", "<<", ">>")
_COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")


def comment_lines(text: str) -> list[str]:
    return [f"// {line}".rstrip() for line in text.split("\n")] if text else []


class Printer:
    def name(self, name: str) -> str:
        return name

    def literal(self, literal: Literal) -> str:
        raise NotImplementedError

    def let(self, let: Let) -> str:
        """A declaration, without its semicolon."""
        raise NotImplementedError

    def call(self, call: Call) -> str:
        raise NotImplementedError

    def member(self, whole: str, field: str) -> str:
        return f"{whole}.{field}"

    def block(self, body: Sequence[Statement]) -> list[str]:
        statements = (
            text for s in body for text in (*comment_lines(s.comment), *self.statement(s))
        )
        return [line for text in statements for line in text.split("\n")]

    def indent(self, body: Sequence[Statement]) -> Iterator[str]:
        return (f"  {line}" for line in self.block(body))

    def statement(self, statement: Statement) -> Iterator[str]:
        match statement:
            case If(one_line=True, other=()) | Loop(one_line=True):
                inside = statement.then if isinstance(statement, If) else statement.body
                yield f"{self._head(statement)} {{ {' '.join(self.block(inside))} }}"
            case If(_, then, other):
                yield f"{self._head(statement)} {{"
                yield from self.indent(then)
                yield from self._else(other)
            case Loop(body=body):
                yield f"{self._head(statement)} {{"
                yield from self.indent(body)
                yield "}"
            case Return(value):
                yield "return;" if value is None else f"return {self.expr(value)};"
            case _:
                yield f"{self._simple(statement)};"

    def _else(self, other: Sequence[Statement]) -> Iterator[str]:
        match other:
            case ():
                yield "}"
            case (If() as inner,):
                first, *rest = self.statement(replace(inner, one_line=False))
                yield f"}} else {first}"
                yield from rest
            case _:
                yield "} else {"
                yield from self.indent(other)
                yield "}"

    def _head(self, statement: If | Loop) -> str:
        if isinstance(statement, If):
            return f"if ({self._bare(statement.condition)})"
        if not statement.before and not statement.after:
            return f"while ({self._bare(statement.condition)})"
        heads = (statement.before, statement.after)
        before, after = (" ".join(map(self._simple, head)) for head in heads)
        return f"for ({before}; {self.expr(statement.condition)}; {after})"

    def _simple(self, statement: Statement) -> str:
        """A statement without its semicolon, as in the head of a `for`."""
        match statement:
            case Let():
                return self.let(statement)
            case Assign(target, Binary(op, _, value), compound=True):
                if value == Literal(1, "int"):
                    return f"{self.expr(target)}{op}{op}"
                return f"{self.expr(target)} {op}= {self.expr(value)}"
            case Assign(target, value):
                return f"{self.expr(target)} = {self.expr(value)}"
            case Run(call):
                return self.expr(call)
        raise TypeError(f"{type(statement).__name__} is no simple statement")

    def _bare(self, expr: Expr) -> str:
        """An expression that stands in parentheses of its statement."""
        return self.expr(replace(expr, parens=False) if isinstance(expr, Unary | Binary) else expr)

    def expr(self, expr: Expr) -> str:
        match expr:
            case Literal():
                return self.literal(expr)
            case Name(name):
                return self.name(name)
            case Unary(op, operand):
                text = f"{op}{self._operand(operand)}"
                return f"({text})" if expr.parens else text
            case Binary(op, left, right):
                text = f"{self._side(expr, left, 0)} {op} {self._side(expr, right, 1)}"
                return f"({text})" if expr.parens else text
            case Call():
                return self.call(expr)
            case Member(whole, field):
                return self.member(self._operand(whole), field)
            case Element(whole, index):
                return f"{self._operand(whole)}[{self.expr(index)}]"

    def args(self, call: Call) -> str:
        """The arguments with their parentheses; a line each where the call is tall."""
        if call.tall:
            return f"(\n{''.join(f'  {self.expr(arg)},' + chr(10) for arg in call.args)})"
        return f"({', '.join(map(self.expr, call.args))})"

    def _operand(self, expr: Expr) -> str:
        needs = isinstance(expr, Binary) and not expr.parens
        return f"({self.expr(expr)})" if needs else self.expr(expr)

    def _side(self, outer: Binary, inner: Expr, bump: int) -> str:
        if not isinstance(inner, Binary) or inner.parens:
            return self.expr(inner)
        needs = PRECEDENCE[inner.op] < PRECEDENCE[outer.op] + bump
        is_apart = outer.op in _ALONE or inner.op in _ALONE
        needs = needs or (is_apart and inner.op != outer.op)
        needs = needs or {outer.op, inner.op} == {"&&", "||"}
        needs = needs or (inner.op in _COMPARISONS and outer.op in _COMPARISONS)
        return f"({self.expr(inner)})" if needs else self.expr(inner)
