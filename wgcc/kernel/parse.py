"""WGSL text to the tree of `tree`: a tokenizer and precedence climbing."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

from wgcc.kernel.tree import (
    Assign,
    Binary,
    Call,
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
    Unary,
)


class WgslError(ValueError):
    """The text is not in the subset; says what was met, and in which line."""


@cache
def parse_expression(text: str) -> Expr:
    parser = _Parser(text)
    found = parser.expression()
    parser.end()
    return found


@cache
def parse_statements(text: str) -> tuple[Statement, ...]:
    parser = _Parser(text)
    found = []
    while parser.token:
        found.append(parser.statement())
    return tuple(found)


@cache
def parse_functions(text: str) -> dict[str, FunctionDef]:
    parser = _Parser(text)
    found = {}
    while parser.token:
        function = parser.function()
        found[function.name] = function
    return found


@cache
def parse_module(text: str) -> Module:
    """A whole kernel: what it declares, then its functions, `main` among them."""
    return _Parser(text).module()


_TOKEN = re.compile(
    r"""\s+ | //[^\n]* |
    (?P<number>0[xX][0-9a-fA-F]+[iu]? | (?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?[fiuh]?) |
    (?P<name>[A-Za-z_]\w* | \{\w+\}) |
    (?P<sign>->|<<=|>>=|\+\+|--|&&|\|\||[=!<>+*/%&|^-]=|<<|>>|[-+*/%&|^!~<>=(){}\[\],;:.@])
    """,
    re.VERBOSE,
)
# Higher binds tighter.
_PRECEDENCE = {
    op: level
    for level, ops in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"), start=1
    )
    for op in ops.split()
}
_COMPOUND = {f"{op}=": op for op in ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>")}
_GENERIC = ("vec2", "vec3", "vec4", "array", "bitcast", "atomic", "var")
_SUFFIXES = {"f": "f32", "h": "f16", "i": "i32", "u": "u32"}
_SHORT = {f"vec{n}{s}": f"vec{n}<{kind}>" for n in "234" for s, kind in _SUFFIXES.items()}


class _Parser:
    """`token` is the next one; "" is the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._tokenize())
        self._at = 0
        self.token = self._tokens[0][0]

    def _tokenize(self) -> list[tuple[str, int]]:
        at, found = 0, []
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            if match is None:
                raise self._error(f"`{self._text[at]}` is not WGSL", at)
            if match.lastgroup:
                found.append((match[0], at))
            at = match.end()
        return [*found, ("", at)]

    def _error(self, message: str, at: int) -> WgslError:
        line = self._text.count("\n", 0, at) + 1
        return WgslError(f"{message} (line {line} of {self._text.strip()[:60]!r})")

    def _fail(self, wanted: str) -> WgslError:
        token, at = self._tokens[self._at]
        return self._error(f"expected {wanted}, found {f'`{token}`' if token else 'the end'}", at)

    def _next(self) -> str:
        token = self.token
        self._at += 1
        self.token = self._tokens[self._at][0]
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
        left = self._unary()
        while (level := _PRECEDENCE.get(self.token, 0)) >= least:
            op = self._next()
            left = Binary(op, left, self.expression(level + 1))
        return left

    def _unary(self) -> Expr:
        if self.token in ("-", "!", "~", "&"):
            op = self._next()
            return Unary(op, self._unary())
        return self._postfix(self._primary())

    def _primary(self) -> Expr:
        if self._accept("("):
            inner = self.expression()
            self._take(")")
            return inner
        if self.token[:1].isdigit() or (self.token[:1] == "." and len(self.token) > 1):
            return _number(self._next())
        if self.token in ("true", "false"):
            return Literal(self._next() == "true", "bool")
        name = self._type_or_name()
        return Call(name, self._args()) if self.token == "(" else Name(name)

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
            return _SHORT.get(name, name)
        self._take("<")
        inner = [self._type_or_name()]
        if self._accept(","):
            inner.append(self._length())
        self._take(">")
        return f"{name}<{', '.join(inner)}>"

    def _length(self) -> str:
        """Of an array: a number, or constants that are multiplied."""
        found = [self._next()]
        while self.token in ("*", "/", "+"):
            found += [self._next(), self._next()]
        return " ".join(found)

    def module(self) -> Module:
        found = Module({}, {}, {}, {}, ())
        workgroup: tuple[Expr, ...] = ()
        while self.token:
            if self._accept("enable"):
                self._name()
                self._take(";")
            elif self._accept("const"):
                name = self._name()
                self._take("=")
                found.constants[name] = self.expression()
                self._take(";")
            elif self.token == "struct":
                self._struct(found.structs)
            elif self.token == "fn":
                function = self.function()
                found.functions[function.name] = function
            elif self.token == "var":
                self._module_variable(found.variables)
            else:
                workgroup = self._attribute().get("workgroup_size", workgroup)
        return replace(found, workgroup=workgroup)

    def _attribute(self) -> dict[str, tuple[Expr, ...]]:
        self._take("@")
        return {self._name(): self._args() if self.token == "(" else ()}

    def _struct(self, structs: dict[str, tuple[str, ...]]) -> None:
        self._take("struct")
        name = self._name()
        self._take("{")
        fields = []
        while self.token != "}":
            fields.append(self._name())
            self._take(":")
            self._type_or_name()
            if not self._accept(","):
                break
        self._take("}")
        structs[name] = tuple(fields)

    def _module_variable(self, variables: dict[str, ModuleVariable]) -> None:
        """`var<storage, read> x0: array<f32, 8>;`"""
        space = self._type_or_name().removeprefix("var<").removesuffix(">").split(", ")[0]
        name = self._name()
        self._take(":")
        variables[name] = ModuleVariable(space, self._type_or_name())
        self._take(";")

    def function(self) -> FunctionDef:
        self._take("fn")
        name = self._name()
        self._take("(")
        params = []
        while self.token != ")":
            builtin = self._attribute().get("builtin") if self.token == "@" else None
            param = self._name()
            self._take(":")
            kind = self._type_or_name()
            params.append((param, f"@{_named(builtin)}" if builtin else kind))
            if not self._accept(","):
                break
        self._take(")")
        result = self._type_or_name() if self._accept("->") else None
        return FunctionDef(name, tuple(params), result, self._block())

    def _block(self) -> tuple[Statement, ...]:
        self._take("{")
        found = []
        while self.token != "}":
            if not self.token:
                raise self._fail("`}`")
            found.append(self.statement())
        self._take("}")
        return tuple(found)

    def statement(self) -> Statement:
        if self.token == "if":
            return self._if()
        if self.token == "for":
            return self._for()
        if self._accept("while"):
            return Loop((), self.expression(), (), self._block())
        if self._accept("return"):
            value = None if self.token == ";" else self.expression()
            self._take(";")
            return Return(value)
        found = self._simple()
        self._take(";")
        return found

    def _if(self) -> Statement:
        self._take("if")
        condition, then = self.expression(), self._block()
        if not self._accept("else"):
            return If(condition, then, ())
        return If(condition, then, (self._if(),) if self.token == "if" else self._block())

    def _for(self) -> Statement:
        self._take("for")
        self._take("(")
        before = () if self.token == ";" else (self._simple(),)
        self._take(";")
        condition = self.expression()
        self._take(";")
        after = () if self.token == ")" else (self._simple(),)
        self._take(")")
        return Loop(before, condition, after, self._block())

    def _simple(self) -> Statement:
        """What may also be in the head of a `for`."""
        if self.token in ("let", "var"):
            return self._let()
        target = self._unary()
        if self._accept("="):
            return Assign(target, self.expression())
        if self.token in _COMPOUND:
            op = _COMPOUND[self._next()]
            return Assign(target, Binary(op, target, self.expression()))
        if self.token in ("++", "--"):
            return Assign(target, Binary(self._next()[0], target, Literal(1, "int")))
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


def _named(args: tuple[Expr, ...]) -> str:
    """The only argument of an attribute, which is a name."""
    (arg,) = args
    assert isinstance(arg, Name)
    return arg.name


def _number(text: str) -> Literal:
    if text[:2].lower() == "0x":
        digits, suffix = (text[:-1], text[-1]) if text[-1] in "iu" else (text, "")
        return Literal(int(digits, 16), _SUFFIXES.get(suffix, "int"))
    digits, suffix = (text[:-1], text[-1]) if text[-1] in _SUFFIXES else (text, "")
    kind = _SUFFIXES.get(suffix, "f32" if re.search(r"[.eE]", digits) else "int")
    return Literal(float(digits) if kind in ("f32", "f16") else int(digits), kind)
