"""WGSL text to the tree of `tree`: a tokenizer and precedence climbing.

A page with holes is WGSL as well: a hole is a name that nothing declares, or a call of one as a
statement. `rewrite/transform.py` fills it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import TypeVar

from wgcc.kernel.tokenize import WgslError, error_at, tokenize
from wgcc.kernel.tree import (
    Alias,
    Assign,
    Binary,
    Call,
    ConstantDef,
    Declaration,
    Element,
    Enable,
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
    name_argument,
    number,
    whole_argument,
)
from wgcc.kernel.types import SHORT_VECTORS


@cache
def parse_expression(text: str) -> Expr:
    parser = _Parser(text)
    expr = parser.expression()
    parser.end()
    return expr


@cache
def parse_statements(text: str) -> tuple[Statement, ...]:
    parser = _Parser(text)
    statements = []
    while parser.token:
        statements.append(parser.statement())
    return tuple(statements)


@cache
def parse_functions(text: str) -> dict[str, FunctionDef]:
    return parse_module(text).functions


@cache
def parse_module(text: str) -> Module:
    """A whole kernel, or declarations of one."""
    return _module(_Parser(text))


def parse_with_places(text: str) -> tuple[Module, dict[int, tuple[int, int]]]:
    """A module, and where each declaration, statement and expression is, by its `id`."""
    parser = _Parser(text)
    return _module(parser), parser.places


def _module(parser: _Parser) -> Module:
    declarations = []
    while parser.token:
        declarations.append(parser.declaration())
    return Module(tuple(declarations))


def readable_module(text: str) -> Module:
    """The tree of a file that somebody may have edited: without declarations, if it has none."""
    try:
        return parse_module(text)
    except WgslError:
        return Module(())


# Higher binds tighter.
PRECEDENCE = {
    op: level
    for level, ops in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"), start=1
    )
    for op in ops.split()
}
_COMPOUND = {f"{op}=": op for op in ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>")}
_GENERIC = ("vec2", "vec3", "vec4", "array", "bitcast", "atomic", "var")


def long_type(kind: str) -> str:
    """`array<vec4<f32>, 8>` for `array<vec4f, 8>`."""
    return re.sub(r"\bvec[234][fhiu]\b", lambda match: SHORT_VECTORS[match[0]], kind)


Placed = TypeVar("Placed", Expr, Statement, Declaration)


class _Parser:
    """`token` is the next one; "" is the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._at = 0
        self.token = self._tokens[0].text
        self.places: dict[int, tuple[int, int]] = {}

    def _place(self, node: Placed, first: int) -> Placed:
        """Records that a node is what was read from the token `first` on."""
        last = self._tokens[self._at - 1]
        self.places[id(node)] = self._tokens[first].at, last.at + len(last.text)
        return node

    @property
    def _comment(self) -> str:
        return self._tokens[self._at].comment

    def _has_break(self, first: int) -> bool:
        """Does a line end between a token and the last that was read?"""
        start, end = self._tokens[first].at, self._tokens[self._at - 1].at
        return "\n" in self._text[start:end]

    def _fail(self, wanted: str) -> WgslError:
        token, at, _ = self._tokens[self._at]
        return error_at(
            self._text, f"expected {wanted}, found {f'`{token}`' if token else 'the end'}", at
        )

    def _next(self) -> str:
        token = self.token
        self._at += 1
        self.token = self._tokens[self._at].text
        return token

    def _take(self, token: str) -> None:
        if self.token != token:
            raise self._fail(f"`{token}`")
        self._next()

    def _accept(self, token: str) -> bool:
        if self.token == token:
            self._next()
            return True
        return False

    def end(self) -> None:
        if self.token:
            raise self._fail("the end")

    def _name(self) -> str:
        if not (self.token[:1].isalpha() or (self.token[:1] in ("_", "{") and self.token != "{")):
            raise self._fail("a name")
        return self._next()

    def expression(self, least: int = 1) -> Expr:
        first, left = self._at, self._unary()
        while (level := PRECEDENCE.get(self.token, 0)) >= least:
            op = self._next()
            left = self._place(Binary(op, left, self.expression(level + 1)), first)
        return left

    def _unary(self) -> Expr:
        first = self._at
        if self.token in ("-", "!", "~", "&"):
            op = self._next()
            return self._place(Unary(op, self._unary()), first)
        return self._place(self._postfix(self._primary()), first)

    def _primary(self) -> Expr:
        if self._accept("("):
            inner = self.expression()
            self._take(")")
            return replace(inner, parens=True) if isinstance(inner, Unary | Binary) else inner
        if self.token[:1].isdigit() or (self.token[:1] == "." and len(self.token) > 1):
            return number(self._next())
        if self.token in ("true", "false"):
            return Literal(self._next() == "true", "bool")
        name = self._type_or_name()
        if self.token != "(":
            return Name(name)
        first = self._at
        return Call(name, self._args(), self._text.startswith("(\n", self._tokens[first].at))

    def _postfix(self, whole: Expr) -> Expr:
        while True:
            if self._accept("."):
                whole = Member(whole, self._name())
            elif self._accept("["):
                whole = Element(whole, self.expression())
                self._take("]")
            else:
                return whole

    def _args(self) -> tuple[Expr, ...]:
        self._take("(")
        args = []
        while self.token != ")":
            args.append(self.expression())
            if not self._accept(","):
                break
        self._take(")")
        return tuple(args)

    def _type_or_name(self) -> str:
        name = self._name()
        if name not in _GENERIC or self.token != "<":
            return SHORT_VECTORS.get(name, name)
        self._take("<")
        inner = [self._type_or_name()]
        if self._accept(","):
            inner.append(self._length())
        self._take(">")
        return f"{name}<{', '.join(inner)}>"

    def _length(self) -> str:
        """The length of an array: a number, or an expression of constants."""
        tokens = [self._next()]
        while self.token in ("*", "/", "+"):
            tokens += [self._next(), self._next()]
        return " ".join(tokens)

    def declaration(self) -> Declaration:
        first = self._at
        return self._place(self._bare_declaration(), first)

    def _bare_declaration(self) -> Declaration:
        comment = self._comment
        attributes: dict[str, tuple[Expr, ...]] = {}
        while self.token == "@":
            attributes |= self._attribute()
        match self.token:
            case "struct":
                return replace(self._struct(), comment=comment)
            case "fn":
                function = self._function()
                size = attributes.get("workgroup_size", ())
                return replace(function, workgroup=size, comment=comment)
            case "var":
                return replace(self._module_variable(attributes), comment=comment)
        keyword, name = self._name(), self._name()
        declared: Declaration
        if keyword == "enable":
            declared = Enable(name, comment)
        elif keyword in ("const", "alias"):
            self._take("=")
            declared = (
                ConstantDef(name, self.expression(), comment)
                if keyword == "const"
                else Alias(name, self._type_or_name(), comment)
            )
        else:
            raise self._fail("a declaration")
        self._take(";")
        return declared

    def _attribute(self) -> dict[str, tuple[Expr, ...]]:
        self._take("@")
        return {self._name(): self._args() if self.token == "(" else ()}

    def _struct(self) -> Struct:
        self._take("struct")
        name = self._name()
        self._take("{")
        fields: list[tuple[str, str]] = []
        while self.token != "}" or not fields:
            field = self._name()
            self._take(":")
            fields.append((field, self._type_or_name()))
            if not self._accept(","):
                break
        self._take("}")
        return Struct(name, tuple(fields))

    def _module_variable(self, attributes: dict[str, tuple[Expr, ...]]) -> ModuleVariable:
        """`@group(0) @binding(1) var<storage, read> x0: array<f32, 8>;`"""
        inside = self._type_or_name().removeprefix("var<").removesuffix(">")
        space, _, access = inside.partition(", ")
        name = self._name()
        self._take(":")
        kind = self._type_or_name()
        self._take(";")
        group, binding = attributes.get("group"), attributes.get("binding")
        slot = (whole_argument(group), whole_argument(binding)) if group and binding else None
        return ModuleVariable(name, space, kind, access, slot)

    def _function(self) -> FunctionDef:
        self._take("fn")
        name = self._name()
        self._take("(")
        params = []
        while self.token != ")":
            builtin = self._attribute().get("builtin") if self.token == "@" else None
            param = self._name()
            self._take(":")
            kind = self._type_or_name()
            params.append((param, f"@{name_argument(builtin)}" if builtin else kind))
            if not self._accept(","):
                break
        self._take(")")
        result = self._type_or_name() if self._accept("->") else None
        return FunctionDef(name, tuple(params), result, self._block())

    def _block(self) -> tuple[Statement, ...]:
        self._take("{")
        statements = []
        while self.token != "}":
            if not self.token:
                raise self._fail("`}`")
            statements.append(self.statement())
        self._take("}")
        return tuple(statements)

    def statement(self) -> Statement:
        first, comment = self._at, self._comment
        statement = self._bare_statement()
        statement = replace(statement, comment=comment) if comment else statement
        return self._place(statement, first)

    def _bare_statement(self) -> Statement:
        if self.token == "if":
            return self._if()
        if self.token in ("for", "while"):
            return self._loop()
        if self._accept("return"):
            value = None if self.token == ";" else self.expression()
            self._take(";")
            return Return(value)
        statement = self._simple()
        self._take(";")
        return statement

    def _if(self) -> If:
        first = self._at
        self._take("if")
        condition, then = self.expression(), self._block()
        other: tuple[Statement, ...] = ()
        if self._accept("else"):
            other = (self._if(),) if self.token == "if" else self._block()
        return If(condition, then, other, one_line=not self._has_break(first))

    def _loop(self) -> Loop:
        first, keyword = self._at, self._next()
        if keyword == "while":
            before, condition, after = tuple[Statement](), self.expression(), tuple[Statement]()
        else:
            self._take("(")
            before = () if self.token == ";" else (self._simple(),)
            self._take(";")
            condition = self.expression()
            self._take(";")
            after = () if self.token == ")" else (self._simple(),)
            self._take(")")
        body = self._block()
        return Loop(before, condition, after, body, one_line=not self._has_break(first))

    def _simple(self) -> Statement:
        """Parses a statement that may also be in the head of a `for`."""
        if self.token in ("let", "var"):
            return self._let()
        target = self._unary()
        if self._accept("="):
            return Assign(target, self.expression())
        if self.token in _COMPOUND:
            op = _COMPOUND[self._next()]
            return Assign(target, Binary(op, target, self.expression()), compound=True)
        if self.token in ("++", "--"):
            one = Literal(1, "int")
            return Assign(target, Binary(self._next()[0], target, one), compound=True)
        if isinstance(target, Call):
            return Run(target)
        raise self._fail("an assignment")

    def _let(self) -> Statement:
        mutable = self._next() == "var"
        name = self._name()
        kind = self._type_or_name() if self._accept(":") else None
        if mutable and kind and self.token != "=":
            return Let(name, kind, None, mutable)
        self._take("=")
        return Let(name, kind, self.expression(), mutable)
