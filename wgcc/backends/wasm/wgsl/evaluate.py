"""Runs the tree of WGSL on values instead of numbers: what it computes, as one graph of nodes.

Calls are inlined or stay calls; both sides of an `if` are computed and one is selected; a loop
whose condition is known is unrolled. Vectors of WGSL and arrays are tuples of values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from wgcc.backends.wasm.wgsl.arithmetic import Arithmetic, WasmValue
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
    Name,
    Return,
    Statement,
    Unary,
)

Thing = WasmValue | tuple["Thing", ...]


@dataclass(frozen=True, slots=True)
class Local:
    """A local that holds an operand: one number for all lanes, or (`lanes` 4) one for each."""

    index: int
    kind: str
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class KnownOperand:
    """An operand that is known when the kernel is written."""

    number: float | int | bool
    kind: str


Names = Mapping[str, Local | KnownOperand]
Environment = dict[str, Thing]


@dataclass(frozen=True, slots=True)
class CompiledFunction:
    """A function of the module; its result has `lanes`."""

    index: int
    kind: str
    lanes: int


class Functions(Protocol):
    def lookup(self, name: str) -> FunctionDef | None: ...

    def compiled_function(self, name: str, lanes: tuple[int, ...]) -> CompiledFunction | None:
        """None where lanes would diverge: then each lane is computed by itself."""

    def snippet(self, name: str, lanes: tuple[int, ...]) -> Snippet | None:
        """None where it has a loop."""


@dataclass(frozen=True, slots=True, eq=False)
class Snippet:
    """Instructions that were written once and are copied, with locals of the place put in.

    Each piece ends where the index of a local follows: of an operand, or (numbers from
    `operands` on) of one of its own, whose types are `own`. `tail` follows the last index.
    """

    pieces: tuple[tuple[bytes, int], ...]
    tail: bytes
    operands: int
    own: tuple[int, ...]
    kind: str
    lanes: int


class NeedsLoopError(Exception):
    """A loop that cannot be unrolled: its function must stay a function."""


class UnsupportedError(Exception):
    """Not in the subset of WGSL that ops are written in."""


# Functions of more nodes than this are not evaluated at each call: for scalars they are called, for
# vectors their instructions are copied, which makes exp twice as fast.
LARGEST_INLINE = 40
LONGEST_UNROLLED = 16
_SCALARS = ("f32", "i32", "u32", "bool")
_FIELDS = "xyzw"


class Evaluator:
    def __init__(self, functions: Functions, names: Names) -> None:
        self.values = Arithmetic()
        self._functions = functions
        self._names = names

    def expression(self, expr: Expr, env: Environment) -> Thing:
        match expr:
            case Name(name):
                return self._name(name, env)
            case Binary(op, left, right):
                return self._binary(op, self.expression(left, env), self.expression(right, env))
            case Literal(value, kind):
                return self.values.constant(value, kind)
            case Call(name, args):
                return self._call(name, [self.expression(arg, env) for arg in args])
            case Unary(op, operand):
                return self.values.unary(op, scalar(self.expression(operand, env)))
            case Member(whole, field):
                return parts(self.expression(whole, env))[_FIELDS.index(field)]
            case Element(whole, index):
                items = parts(self.expression(whole, env))
                return self._element(items, scalar(self.expression(index, env)))

    def _name(self, name: str, env: Environment) -> Thing:
        if name in env:
            return env[name]
        operand = self._names.get(name)
        if operand is None:
            raise UnsupportedError(f"nothing is called {name}")
        if isinstance(operand, Local):
            return self.values.local(operand.index, operand.kind, operand.lanes)
        return self.values.constant(operand.number, operand.kind)

    def _binary(self, op: str, a: Thing, b: Thing) -> Thing:
        if isinstance(a, WasmValue) and isinstance(b, WasmValue):
            return self.values.binary(op, a, b)
        size = max(len(x) for x in (a, b) if isinstance(x, tuple))
        lefts, rights = (x if isinstance(x, tuple) else (x,) * size for x in (a, b))
        return tuple(self._binary(op, x, z) for x, z in zip(lefts, rights, strict=True))

    def _element(self, items: tuple[Thing, ...], index: WasmValue) -> Thing:
        if index.op == "const":
            return items[min(int(index.number), len(items) - 1)]
        element = items[-1]
        for at, item in enumerate(items[:-1]):
            here = self.values.binary("==", index, self.values.constant(at, "int"))
            element = self.select(element, item, here)
        return element

    def select(self, otherwise: Thing, then: Thing, condition: WasmValue) -> Thing:
        if isinstance(otherwise, WasmValue) and isinstance(then, WasmValue):
            return self.values.select(otherwise, then, condition)
        pairs = zip(parts(otherwise), parts(then), strict=True)
        return tuple(self.select(x, z, condition) for x, z in pairs)

    def _call(self, name: str, args: list[Thing]) -> Thing:
        if name in _SCALARS or name == "Values":
            return self.values.convert(scalar(args[0]), "f32" if name == "Values" else name)
        if name.startswith("bitcast<"):
            return self.values.bitcast(scalar(args[0]), name[8:-1])
        if name.startswith(("vec", "array")) and name.endswith(">"):
            return self._composite(name, args)
        if name == "select":
            return self.select(args[0], args[1], scalar(args[2]))
        definition = self._functions.lookup(name)
        if definition is not None:
            return self._function(definition, args)
        if all(isinstance(arg, WasmValue) for arg in args):
            value = self.values.built_in(name, [scalar(arg) for arg in args])
            if value is not None:
                return value
        raise UnsupportedError(f"nothing is called {name}")

    def _composite(self, name: str, args: Sequence[Thing]) -> Thing:
        kind = name[name.index("<") + 1 : -1].split(",")[0]
        size = int(name[3]) if name.startswith("vec") else len(args)
        items = list(args) * (size if len(args) == 1 else 1)
        return tuple(
            self.values.convert(item, kind) if isinstance(item, WasmValue) else item
            for item in items
        )

    def _function(self, definition: FunctionDef, args: list[Thing]) -> Thing:
        kinds = [kind for _, kind in definition.params]
        args = [
            self.values.of_kind(arg, kind) if isinstance(arg, WasmValue) else arg
            for arg, kind in zip(args, kinds, strict=True)
        ]
        if _should_inline(definition, args):
            try:
                return self.inline(definition, args)
            except NeedsLoopError:
                pass
        scalars = tuple(scalar(arg) for arg in args)
        lanes = tuple(arg.lanes for arg in scalars)
        snippet = self._functions.snippet(definition.name, lanes) if max(lanes) > 1 else None
        if snippet is not None:
            return self.values.node("copy", snippet.kind, snippet.lanes, scalars, snippet)
        compiled = self._functions.compiled_function(definition.name, lanes)
        if compiled is not None:
            return self.values.node("call", compiled.kind, compiled.lanes, scalars, compiled.index)
        compiled = self._functions.compiled_function(definition.name, (1,) * len(lanes))
        assert compiled is not None
        return self.values.node("call each lane", compiled.kind, 4, scalars, compiled.index)

    def inline(self, definition: FunctionDef, args: Sequence[Thing]) -> Thing:
        names = [name for name, _ in definition.params]
        result = self.run(definition.body, dict(zip(names, args, strict=True)))
        if result is None:
            raise UnsupportedError(f"{definition.name} returns nothing")
        kind = definition.result or ""
        return self.values.of_kind(result, kind) if isinstance(result, WasmValue) else result

    def run(self, statements: Sequence[Statement], env: Environment) -> Thing | None:
        """Carries statements out, and returns what they return, if they do."""
        for at, statement in enumerate(statements):
            match statement:
                case Let(name, kind, value, _):
                    env[name] = self._initial(kind, value, env)
                case Assign(target, value):
                    self._assign(target, self.expression(value, env), env)
                case If() if returns((statement,)):
                    return self._branches(statement, tuple(statements[at + 1 :]), env)
                case If():
                    self._either(statement, env)
                case Loop():
                    self._loop(statement, env)
                case Return(value):
                    return () if value is None else self.expression(value, env)
                case _:
                    raise UnsupportedError(f"a statement {statement}")
        return None

    def _initial(self, kind: str | None, value: Expr | None, env: Environment) -> Thing:
        if value is None:
            return _zero(self.values, kind or "")
        initial = self.expression(value, env)
        if isinstance(initial, WasmValue):
            return self.values.of_kind(
                initial, kind or ("i32" if initial.kind == "int" else initial.kind)
            )
        return initial

    def _assign(self, target: Expr, value: Thing, env: Environment) -> None:
        if isinstance(target, Name):
            old = self._name(target.name, env)
            if isinstance(value, WasmValue) and isinstance(old, WasmValue):
                value = self.values.of_kind(value, old.kind)
            env[target.name] = value
            return
        assert isinstance(target, Member | Element)
        items = list(parts(self.expression(target.whole, env)))
        if isinstance(target, Member):
            items[_FIELDS.index(target.field)] = value
        else:
            index = scalar(self.expression(target.index, env))
            for at, item in enumerate(items):
                here = self.values.binary("==", index, self.values.constant(at, "int"))
                items[at] = self.select(item, value, here)
        self._assign(target.whole, tuple(items), env)

    def _branches(self, branch: If, rest: tuple[Statement, ...], env: Environment) -> Thing | None:
        """An `if` that may return: what follows it is part of both sides."""
        condition = scalar(self.expression(branch.condition, env))
        sides = ((*branch.then, *rest), (*branch.other, *rest))
        if condition.op == "const":
            return self.run(sides[0 if condition.number else 1], env)
        then, other = (self.run(side, dict(env)) for side in sides)
        if then is None or other is None:
            raise UnsupportedError("a function that returns nothing in some case")
        return self.select(other, then, condition)

    def _either(self, branch: If, env: Environment) -> None:
        condition = scalar(self.expression(branch.condition, env))
        then, other = dict(env), dict(env)
        if condition.op != "const" or condition.number:
            self.run(branch.then, then)
        if condition.op != "const" or not condition.number:
            self.run(branch.other, other)
        for name in assigned_names((branch,)):
            sides = (self._name(name, other), self._name(name, then))
            env[name] = self.select(*sides, condition)

    def _loop(self, loop: Loop, env: Environment) -> None:
        self.run(loop.before, env)
        for _ in range(LONGEST_UNROLLED):
            condition = scalar(self.expression(loop.condition, env))
            if condition.op != "const":
                break
            if not condition.number:
                return
            self.run((*loop.body, *loop.after), env)
        self.repeat(loop, env)

    def repeat(self, loop: Loop, env: Environment) -> None:
        """A loop that stays one; only where statements become instructions one by one."""
        raise NeedsLoopError


def scalar(thing: Thing) -> WasmValue:
    if not isinstance(thing, WasmValue):
        raise UnsupportedError("a vector or an array where a number is expected")
    return thing


def parts(thing: Thing) -> tuple[Thing, ...]:
    if not isinstance(thing, tuple):
        raise UnsupportedError("a number where a vector or an array is expected")
    return thing


def _zero(values: Arithmetic, kind: str) -> Thing:
    if kind in _SCALARS:
        return values.constant(0, kind)
    inner, _, count = kind[kind.index("<") + 1 : -1].partition(",")
    size = int(kind[3]) if kind.startswith("vec") else int(count.strip().rstrip("u"))
    return (values.constant(0, inner),) * size


def _should_inline(definition: FunctionDef, args: Sequence[Thing]) -> bool:
    composite = definition.result not in _SCALARS or any(
        kind not in _SCALARS for _, kind in definition.params
    )
    known = any(isinstance(arg, WasmValue) and arg.op == "const" for arg in args)
    nodes, branches = _size(definition)
    return composite or nodes <= LARGEST_INLINE or (known and branches)


@cache
def _size(definition: FunctionDef) -> tuple[int, bool]:
    """How many nodes a function has, and whether it branches."""
    return _count(definition.body), any(isinstance(s, If | Loop) for s in definition.body)


def _count(item: object) -> int:
    if isinstance(item, tuple):
        return sum(_count(inner) for inner in item)
    if not hasattr(item, "__slots__"):
        return 0
    return 1 + sum(_count(getattr(item, name)) for name in item.__slots__)


@cache
def returns(statements: tuple[Statement, ...]) -> bool:
    for statement in statements:
        match statement:
            case Return():
                return True
            case If(_, then, other) if returns(then) or returns(other):
                return True
            case Loop(_, _, _, body) if returns(body):
                raise UnsupportedError("a loop that returns")
    return False


@cache
def assigned_names(statements: tuple[Statement, ...]) -> tuple[str, ...]:
    """The variables from outside that statements change."""
    own: set[str] = set()
    targets: dict[str, None] = {}
    for statement in statements:
        match statement:
            case Let(name):
                own.add(name)
            case Assign(target):
                while not isinstance(target, Name):
                    target = _whole(target)
                targets[target.name] = None
            case If(_, then, other):
                targets.update(dict.fromkeys((*assigned_names(then), *assigned_names(other))))
            case Loop(before, _, after, body):
                inner = assigned_names((*before, *body, *after))
                targets.update(dict.fromkeys(inner))
    return tuple(name for name in targets if name not in own)


def _whole(target: Expr) -> Expr:
    assert isinstance(target, Member | Element)
    return target.whole
