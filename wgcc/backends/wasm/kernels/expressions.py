"""Expressions of a kernel: positions stay sums of loop variables, the rest is in locals.

What depends on outer loops only is computed there, once (`scopes`).
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import itemgetter

from wgcc.backends.wasm.encoding.module import WasmFunction
from wgcc.backends.wasm.kernels.positions import Counter, Positions, combine
from wgcc.backends.wasm.kernels.scopes import (
    LANES,
    WORD,
    Choice,
    Env,
    Held,
    Mutable,
    Scopes,
    Storage,
    Thing,
    most_of,
    type_code,
    word_of,
)
from wgcc.backends.wasm.wgsl.evaluate import KnownOperand, Local
from wgcc.backends.wasm.wgsl.lanes import Code
from wgcc.backends.wasm.wgsl.library import Library
from wgcc.ir.index import LARGEST, Index, constant, variable
from wgcc.kernel.tree import (
    Binary,
    Call,
    Element,
    Expr,
    FunctionDef,
    Literal,
    Member,
    Name,
    Statement,
    Unary,
    names_of,
)

_GENERIC = ("min", "max", "clamp", "abs", "sign", "select")
# What a call of a function costs, in instructions.
CALL = 20
_COMPARISONS = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt,
    ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
_CHOICE = Call("select", (Literal(0, "u32"), Name("then"), Name("inside")))


class Expressions(ABC):
    """`functions` are those of the kernel, which are inlined; those of `library` are called.

    `outermost` has the bindings and constants, which all functions see.
    """

    def __init__(
        self,
        function: WasmFunction,
        library: Library,
        functions: Mapping[str, FunctionDef],
        outermost: Env,
    ) -> None:
        self.f = function
        self._outermost = outermost
        self.scopes = Scopes(function)
        self.positions = Positions(function, self.scopes)
        self.divisors: set[int] = set()
        # By the name of the variable that stands for one.
        self.choices: dict[str, Choice] = {}
        self._watched: int | None = None
        self._conditions: dict[Hashable, Held] = {}
        self._assumed: frozenset[Hashable] = frozenset()
        self._code = Code(function, library)
        self._functions = functions
        self._library = library

    @abstractmethod
    def run(self, statements: Sequence[Statement], env: Env) -> Held | None:
        """Writes the statements, and returns the value of their `return`, if there is one."""

    @abstractmethod
    def load(self, storage: Storage, index: Index) -> Held: ...

    def value(self, expr: Expr, env: Env, kind: str | None = None) -> Held:
        """Loads and calls of the kernel's functions are done; the rest is one expression."""
        names: Env = {}
        lowered = self._lower(expr, env, names)
        return self._hold(lowered, {**env, **names}, kind)

    def _hold(self, expr: Expr, env: Env, kind: str | None = None) -> Held:
        if isinstance(expr, Name) and isinstance(env.get(expr.name), Held):
            held = env[expr.name]
            assert isinstance(held, Held)
            return held
        own = kind or self.kind(expr, env)
        if isinstance(expr, Literal):
            return _literal(expr, own)
        known = self._decide(expr, env, own)
        if known is not None:
            return known
        if own == "u32":
            index = self._sum_of(expr, env)
            if index is not None:
                return self._of_index(index)
            chosen = self._choice_of(expr, env)
            if chosen is not None:
                return chosen
        return self._compute(expr, env, own)

    def _decide(self, expr: Expr, env: Env, kind: str) -> Held | None:
        """A comparison of positions that are numbers here, or a choice by such a comparison."""
        match expr:
            case Binary(op, left, right) if op in _COMPARISONS and self.kind(left, env) == "u32":
                first, second = self._sum_of(left, env), self._sum_of(right, env)
                if first is None or second is None or first.terms or second.terms:
                    return None
                return Held("bool", number=_COMPARISONS[op](first.offset, second.offset))
            case Call("select", (otherwise, then, Name(name))):
                held = env.get(name)
                if isinstance(held, Held) and held.kind == "bool" and held.number is not None:
                    return self._hold(then if held.number else otherwise, env, kind)
        return None

    def _choice_of(self, expr: Expr, env: Env) -> Held | None:
        """A choice of neighbouring lanes: they can be loaded at once where the condition holds."""
        match expr:
            case Call("select", (Literal(0), then, condition)):
                index = self._sum_of(then, env)
                if index is None:
                    return None
                held = self._hold(condition, env, "bool")
                if held.number is not None:
                    return self._of_index(index if held.number else constant(0))
                if not self.positions.in_lanes(index):
                    names: Env = {"then": self._of_index(index), "inside": held}
                    return self._compute(_CHOICE, names, "u32")
                if self.positions.stride(index) in (0, None):
                    return None
                depth = max(self.positions.depth(index), held.depth)
                name = self.positions.name("choice", Counter(-1, depth, varies=True))
                self.choices[name] = Choice(index, held)
                return Held("u32", LANES, index=variable(name, LARGEST + 1), depth=depth)
        return None

    def resolve_choices(self, index: Index) -> Index:
        """The position with its choices computed lane by lane."""
        new = {}
        for own in index.variables():
            choice = self.choices.get(own.name)
            if choice is not None:
                names: Env = {"then": self._of_index(choice.index), "inside": choice.condition}
                new[own] = self._index(self._compute(_CHOICE, names, "u32"))
        return index.substitute(new) if new else index

    def _of_index(self, index: Index) -> Held:
        lanes = LANES if self.positions.in_lanes(index) else 1
        return Held("u32", lanes, index=index, depth=self.positions.depth(index))

    def _compute(self, expr: Expr, env: Env, kind: str) -> Held:
        used = {name: env[name] for name in names_of(expr) if name in env}
        things = list(used.values())
        lanes = max((t.lanes for t in things if not isinstance(t, Storage)), default=1)
        depth = max((t.depth for t in things if isinstance(t, Held)), default=0)
        changes = any(isinstance(thing, Mutable) for thing in things)
        depth = self.scopes.depth if changes else depth
        operands = {name: self._operand(thing, lanes) for name, thing in used.items()}
        key = ("value", expr, kind, tuple(sorted(operands.items(), key=itemgetter(0))))
        if key in self._assumed:
            return Held("bool", number=True)

        def emit() -> int:
            self.scopes.spend(self._cost(expr), depth)
            local = self.f.local(kind, type_code(kind, lanes))
            self._code.expression(_with_type(expr, kind), operands, lanes)
            self.f.set(local)
            return local

        local = emit() if changes else self.scopes.once(key, depth, emit)
        most = most_of(expr, env) if kind == "u32" else LARGEST
        held = Held(kind, lanes, local, depth=depth, most=most)
        if kind == "bool" and lanes == 1 and self._watched is not None and depth <= self._watched:
            self._conditions[key] = held
        return held

    @contextmanager
    def watch_conditions(self) -> Iterator[dict[Hashable, Held]]:
        """Within this, conditions of the current scope, which lanes inside share, are recorded."""
        before = self._watched, self._conditions
        self._watched, self._conditions = self.scopes.depth, {}
        try:
            yield self._conditions
        finally:
            self._watched, self._conditions = before

    @contextmanager
    def assume(self, conditions: Iterable[Hashable]) -> Iterator[None]:
        """Within this, recorded conditions are known to hold."""
        before = self._assumed
        self._assumed = before | frozenset(conditions)
        try:
            yield
        finally:
            self._assumed = before

    def _cost(self, expr: Expr) -> float:
        match expr:
            case Unary(_, operand):
                return 1 + self._cost(operand)
            case Binary(_, left, right):
                return 1 + self._cost(left) + self._cost(right)
            case Call(name, args):
                own = CALL if self._library.lookup(name) else 1
                return own + sum(map(self._cost, args))
        return 0

    def _operand(self, thing: Thing, lanes: int) -> Local | KnownOperand:
        assert not isinstance(thing, Storage)
        if isinstance(thing, Mutable):
            return Local(thing.local, thing.kind, thing.lanes)
        if thing.number is not None:
            return KnownOperand(thing.number, thing.kind)
        if thing.index is None:
            return Local(thing.local, thing.kind, thing.lanes)
        if thing.index.is_constant:
            return KnownOperand(thing.index.offset & LARGEST, "u32")
        if thing.lanes > 1:
            index = self.resolve_choices(thing.index)
            self.note(index)
            return Local(self.positions.vector(index), "u32", LANES)
        return Local(self.positions.scalar(thing.index), "u32")

    def push(self, held: Held, lanes: int) -> None:
        """Pushes a value in at least so many lanes."""
        self._code.expression(Name("x"), {"x": self._operand(held, lanes)}, lanes)

    def position(self, expr: Expr, env: Env) -> Index:
        return self._index(self.value(expr, env, "u32"))

    def _index(self, held: Held) -> Index:
        """A value as a position; what is not known as a sum is a variable of its own."""
        if held.index is not None:
            return held.index
        if held.number is not None:
            return constant(int(held.number))
        counter = Counter(held.local, held.depth, varies=held.lanes > 1)
        name = f"value#{held.local}"
        self.positions.counters[name] = counter
        return variable(name, LARGEST + 1)

    def _sum_of(self, expr: Expr, env: Env) -> Index | None:
        """A sum, product or quotient of positions; None where it is something else."""
        if isinstance(expr, Literal):
            return constant(int(expr.value))
        if isinstance(expr, Name):
            thing = env[expr.name]
            return self._index(thing) if isinstance(thing, Held) and thing.kind == "u32" else None
        if not isinstance(expr, Binary) or expr.op not in "+-*/%":
            return None
        left, right = (self._part(side, env) for side in (expr.left, expr.right))
        return combine(expr.op, left, right)

    def _part(self, expr: Expr, env: Env) -> Index:
        index = self._sum_of(expr, env)
        return self._index(self._compute(expr, env, "u32")) if index is None else index

    def _lower(self, expr: Expr, env: Env, names: Env) -> Expr:
        """Replaces loads and inlined calls by names, which it adds to `names`."""
        match expr:
            case Element(Name(name), index):
                storage = env[name]
                assert isinstance(storage, Storage)
                return self._name(self.load(storage, self.position(index, env)), names)
            case Member(Name(name), "x") if isinstance(storage := env[name], Storage):
                return self._name(self.load(storage, constant(0)), names)
            case Call():
                return self._lower_call(expr, env, names)
            case Binary(op, left, right):
                left, right = (self._lower(side, env, names) for side in (left, right))
                if op in _COMPARISONS:
                    left, right = (self._share_position(side, env, names) for side in (left, right))
                is_needless = op == "&" and self._is_whole(left, right, {**env, **names})
                return left if is_needless else Binary(op, left, right)
            case Unary(op, operand):
                return Unary(op, self._lower(operand, env, names))
        return expr

    def _lower_call(self, expr: Call, env: Env, names: Env) -> Expr:
        match expr:
            case Call("extractBits", (word, first, Literal(8))) if byte := word_of(word):
                return self._name(self._byte(*byte, first, env), names)
            case Call(name) if name in self._functions:
                held = self._inline(expr, env)
                assert held is not None
                return self._name(held, names)
            case Call("f16", (inner,)):
                return self._lower(inner, env, names)
        args = tuple(self._lower(arg, env, names) for arg in expr.args)
        if expr.name == "f32" and self._is_at_most(LARGEST >> 1, args[0], {**env, **names}):
            # The same number as i32, of which machines make a float in one instruction.
            args = (Call("i32", args),)
        return Call(expr.name, args)

    def _is_whole(self, expr: Expr, mask: Expr, env: Env) -> bool:
        """Whether a mask of ones leaves all bits as they are."""
        ones = int(mask.value) if isinstance(mask, Literal) else 0
        return ones > 0 and ones & (ones + 1) == 0 and self._is_at_most(ones, expr, env)

    def _is_at_most(self, most: int, expr: Expr, env: Env) -> bool:
        return self.kind(expr, env) == "u32" and most_of(expr, env) <= most

    def _byte(self, name: str, index: Expr, kind: str, first: Expr, env: Env) -> Held:
        """A byte of a word in memory, whose bits start at a multiple of 8."""
        storage = env[name]
        assert isinstance(storage, Storage)
        position = self.position(index, env) * WORD + self.position(first, env) // 8
        return self.load(replace(storage, kind=kind, unit=1), position)

    def _share_position(self, expr: Expr, env: Env, names: Env) -> Expr:
        """A position that turns out to be the same for all lanes is computed for all of them."""
        if isinstance(expr, Binary) and self.kind(expr, known := {**env, **names}) == "u32":
            index = self._sum_of(expr, known)
            if index is not None and not self.positions.in_lanes(index):
                return self._name(self._of_index(index), names)
        return expr

    def _name(self, held: Held, names: Env) -> Name:
        # Numbered anew for each expression: equal ones are then compiled once.
        name = f"%{len(names)}"
        names[name] = held
        return Name(name)

    def _inline(self, call: Call, env: Env) -> Held | None:
        function = self._functions[call.name]
        inner = dict(self._outermost)
        for (name, kind), arg in zip(function.params, call.args, strict=True):
            inner[name] = self.value(arg, env, kind)
        return self.run(function.body, inner)

    def note(self, index: Index) -> None:
        """A position that is computed lane by lane: other loops might do without."""
        self.divisors |= self.positions.divisors(index)

    def kind(self, expr: Expr, env: Env) -> str:
        kind = self._kind(expr, env)
        return "i32" if kind == "int" else kind

    def _kind(self, expr: Expr, env: Env) -> str:
        match expr:
            case Literal(_, kind):
                return kind
            case Name(name):
                return env[name].kind
            case Element(Name(name), _) | Member(Name(name), _):
                return env[name].kind
            case Unary(op, operand):
                return "bool" if op == "!" else self._kind(operand, env)
            case Binary(op, left, right):
                if op in (*_COMPARISONS, "&&", "||"):
                    return "bool"
                first = self._kind(left, env)
                return (
                    self._kind(right, env) if first == "int" and op not in ("<<", ">>") else first
                )
            case Call(name, args):
                return self._kind_of_call(name, args, env)
        raise AssertionError(expr)

    def _kind_of_call(self, name: str, args: Sequence[Expr], env: Env) -> str:
        if name in ("f32", "u32", "i32", "bool"):
            return name
        if name == "f16":
            return "f32"
        if name.startswith("bitcast<"):
            return name[8:-1]
        function = self._functions.get(name) or self._library.lookup(name)
        if function is not None and function.result is not None and name not in _GENERIC:
            return function.result
        kinds = [self._kind(arg, env) for arg in (args[:2] if name == "select" else args)]
        return next((kind for kind in kinds if kind != "int"), "int")


def _literal(expr: Literal, kind: str) -> Held:
    if kind == "u32":
        return Held("u32", index=constant(int(expr.value)))
    return Held(kind, number=expr.value)


def _with_type(expr: Expr, kind: str) -> Expr:
    """Gives a literal this kind; other expressions have theirs."""
    return Literal(expr.value, kind) if isinstance(expr, Literal) else expr
