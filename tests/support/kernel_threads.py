"""Runs kernels of whole numbers, one thread after the other: what indices and barriers really do.

Arithmetic is that of WGSL: it wraps around, what is divided by zero stays, distances of shifts are
taken modulo 32, and an index beyond the end reads the last element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

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
    Name,
    Return,
    Run,
    Statement,
    Unary,
    expressions_of,
    parts_of,
    statements_of,
)

BITS = 1 << 32


def elements_of(module: Module) -> Iterator[Element]:
    """The places where a kernel takes an element of an array."""
    for function in module.functions.values():
        for statement in statements_of(function.body):
            for expr in expressions_of(statement):
                yield from (part for part in parts_of(expr) if isinstance(part, Element))


class TooLong(Exception):
    """A thread made more steps than a test has time for."""


@dataclass(frozen=True)
class Number:
    value: int
    kind: str


@dataclass
class Trace:
    """The indices of each place of the text, and the barriers in the order in which they came."""

    indices: dict[int, set[int]] = field(default_factory=dict)
    barriers: list[int] = field(default_factory=list)


def wrap(value: int, kind: str) -> Number:
    value %= BITS
    return Number(value - BITS if kind == "i32" and value >= BITS // 2 else value, kind)


def computed(op: str, a: Number, b: Number) -> Number:
    kind = b.kind if a.kind == "int" and op not in ("<<", ">>") else a.kind
    x, y = a.value, b.value
    if op in _TESTS:
        return Number(int(_TESTS[op](x, y)), "bool")
    if op in ("/", "%"):
        quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else x
        return wrap(quotient if op == "/" else (x - quotient * y if y else 0), kind)
    return wrap(_OPERATIONS[op](x, y), kind)


_TESTS = {
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
    "==": int.__eq__,
    "!=": int.__ne__,
}
_OPERATIONS = {
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
    "&": int.__and__,
    "|": int.__or__,
    "^": int.__xor__,
    "<<": lambda x, y: x << y % 32,
    ">>": lambda x, y: x >> y % 32,
}


class Thread:
    """`memory` holds the numbers of each array; `builtins` what the parameters of `main` are."""

    def __init__(
        self,
        module: Module,
        builtins: Mapping[str, object],
        memory: Mapping[str, Sequence[int]],
        steps: int = 400,
    ) -> None:
        self.trace = Trace()
        self._module, self._memory, self._steps = module, memory, steps
        self._builtins = builtins
        kinds = {v.name: v.kind for v in module.variables.values() if v.space == "private"}
        self._private = {name: wrap(0, kind) for name, kind in kinds.items()}
        self._scopes: list[dict[str, Number | dict[str, Number]]] = []

    def run(self) -> Trace:
        main = self._module.functions["main"]
        self._call(main, [self._builtins[kind] for _, kind in main.params])
        return self.trace

    def _call(self, function: FunctionDef, args: Sequence[object]) -> Number | None:
        outer = self._scopes
        names = (name for name, _ in function.params)
        self._scopes = [dict(zip(names, args, strict=True))]  # type: ignore[arg-type]
        result = next(self._block(function.body), None)
        self._scopes = outer
        return result

    def _block(self, body: Sequence[Statement]) -> Iterator[Number | None]:
        """Gives something where the function returns."""
        self._scopes.append({})
        for statement in body:
            self._steps -= 1
            if self._steps < 0:
                raise TooLong
            for result in self._statement(statement):
                yield result
                return
        self._scopes.pop()

    def _statement(self, statement: Statement) -> Iterator[Number | None]:
        match statement:
            case Let(name, kind, value):
                self._scopes[-1][name] = self._bound(value, kind)
            case Assign(target, value):
                self._assign(target, self.value(value))
            case If(condition, then, other):
                yield from self._block(then if self.value(condition).value else other)
            case Loop(before, condition, after, body):
                self._scopes.append({})
                for _ in self._plain(before):
                    pass
                while self.value(condition).value:
                    yield from self._block(body)
                    self._plain(after)
                self._scopes.pop()
            case Return(value):
                yield None if value is None else self.value(value)
            case Run(Call("workgroupBarrier") as call):
                self.trace.barriers.append(id(call))
            case Run(call):
                self.value(call)

    def _plain(self, body: Sequence[Statement]) -> Sequence[Statement]:
        for statement in body:
            for _ in self._statement(statement):
                pass
        return ()

    def _bound(self, value: Expr | None, kind: str | None) -> Number:
        number = Number(0, kind or "u32") if value is None else self.value(value)
        return Number(number.value, "i32") if number.kind == "int" and not kind else number

    def _assign(self, target: Expr, number: Number) -> None:
        if isinstance(target, Element):
            self._position(target)
            return
        assert isinstance(target, Name)
        for scope in (*reversed(self._scopes), self._private):
            if target.name in scope:
                old = scope[target.name]
                assert isinstance(old, Number)
                scope[target.name] = wrap(number.value, old.kind)
                return

    def _position(self, expr: Element) -> int:
        index = self.value(expr.index).value
        self.trace.indices.setdefault(id(expr), set()).add(index)
        return index

    def value(self, expr: Expr) -> Number:
        match expr:
            case Literal(value, kind):
                return Number(int(value), kind)
            case Name(name):
                return self._name(name)
            case Member(Name(name), part):
                whole = next(scope[name] for scope in reversed(self._scopes) if name in scope)
                assert isinstance(whole, dict)
                return whole[part]
            case Element(Name(name), _):
                numbers = self._memory[name]
                index = self._position(expr) % BITS
                return wrap(numbers[min(index, len(numbers) - 1)], "u32")
            case Unary("!", operand):
                return Number(1 - self.value(operand).value, "bool")
            case Unary("-", operand):
                inner = self.value(operand)
                return wrap(-inner.value, inner.kind)
            case Binary("&&" | "||" as op, left, right):
                first = self.value(left)
                return first if first.value == (op == "||") else self.value(right)
            case Binary(op, left, right):
                return computed(op, self.value(left), self.value(right))
            case Call(name, args):
                return self._function(name, [self.value(arg) for arg in args])
        raise TypeError(expr)

    def _name(self, name: str) -> Number:
        for scope in (*reversed(self._scopes), self._private):
            if name in scope:
                number = scope[name]
                assert isinstance(number, Number)
                return number
        return self.value(self._module.constants[name])

    def _function(self, name: str, args: list[Number]) -> Number:
        if name in self._module.functions:
            result = self._call(self._module.functions[name], args)
            return result or Number(0, "u32")
        if name in ("u32", "i32"):
            return wrap(args[0].value, name)
        if name == "select":
            return args[1] if args[2].value else args[0]
        if name == "clamp":
            return self._function("min", [self._function("max", args[:2]), args[2]])
        pick = {"min": min, "max": max}[name]
        kind = next((arg.kind for arg in args if arg.kind != "int"), "int")
        return Number(pick(arg.value for arg in args), kind)
