"""Loads and stores of kernels: neighbouring lanes at once, others lane by lane.

Iterations of a loop may run as lanes if all they have in common are variables that the loop
accumulates into.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wgcc.backends.wasm.encoding.instructions import V128
from wgcc.backends.wasm.kernels.expressions import Expressions
from wgcc.backends.wasm.kernels.scopes import (
    LANES,
    WORD,
    Choice,
    Env,
    Held,
    Storage,
    Unvectorisable,
    type_code,
)
from wgcc.ir.index import LARGEST, Index, Variable, constant
from wgcc.kernel.tree import (
    Assign,
    Binary,
    Call,
    Element,
    Expr,
    Let,
    Loop,
    Name,
    Statement,
    expressions_of,
    names_of,
    statements_of,
)

# Costs, in instructions: of a load or store whose lanes are neighbours, apart, or anywhere.
NEAR, APART, ANYWHERE = 1.0, 5.0, 9.0
_LOADS = {
    ("f32", WORD): "f32.load",
    ("u32", WORD): "i32.load",
    ("i32", WORD): "i32.load",
    ("u32", 1): "i32.load8_u",
    ("i32", 1): "i32.load8_s",
}
_STORES = {"f32": "f32.store", "u32": "i32.store", "i32": "i32.store"}


class MemoryAccess(Expressions):
    # The scope of the loop that runs along lanes, and whether lanes never store at one place.
    _lane_depth: int | None = None
    _independent = False
    # Of two vectors that follow each other in memory, the number of the one that is being loaded.
    pair: int | None = None

    def load(self, storage: Storage, index: Index) -> Held:
        choice = self._neighbours(index)
        if choice is not None:
            return self._load_inside(storage, index, choice)
        index = self.resolve_choices(index)
        depth = self.positions.depth(index)
        stride = self.positions.stride(index)
        lanes = LANES if self.positions.in_lanes(index) and stride != 0 else 1
        here = self.scopes.depth if storage.written else self.scopes.hoistable(depth)
        if stride is None:
            self.note(index)
        cost = NEAR if stride in (0, 1) else ANYWHERE if stride is None else APART

        def emit() -> int:
            self.scopes.spend(cost, here)
            local = self.f.local("x", type_code(storage.kind, lanes))
            if lanes == 1:
                offset = self.positions.address(storage.local, index, unit=storage.unit)
                self.f.emit(_LOADS[storage.kind, storage.unit], offset=offset)
            elif stride == 1 and self._is_in_pair(storage, index):
                self._load_of_pair(storage, index, here)
            elif stride == 1:
                self._load_vector(storage, index)
            else:
                self._gather(storage, index, stride)
            self.f.set(local)
            return local

        if storage.written:
            local = emit()
        else:
            local = self.scopes.once(("load", storage, index), here, emit)
        is_byte = storage.unit != WORD and storage.kind == "u32"
        return Held(storage.kind, lanes, local, depth=here, most=255 if is_byte else LARGEST)

    def _neighbours(self, index: Index) -> Choice | None:
        """The choice in a position of neighbouring lanes, if all of them are inside."""
        choices = [(v, self.choices[v.name]) for v in index.variables() if v.name in self.choices]
        if len(choices) != 1:
            return None
        own, choice = choices[0]
        inside = Choice(index.substitute({own: choice.index}), choice.condition)
        return inside if self.positions.stride(inside.index) == 1 else None

    def _load_inside(self, storage: Storage, index: Index, choice: Choice) -> Held:
        """One load where all lanes are inside, or all outside; else lane by lane."""
        f, depth, condition = self.f, self.scopes.depth, choice.condition
        self.scopes.spend(2 * NEAR, depth)
        if condition.lanes == 1:
            return self._load_or_first(storage, index, choice)
        inside = self._code_of(lambda: self._load_vector(storage, choice.index))
        apart = self._code_of(lambda: self._gather(storage, self.resolve_choices(index), None))
        self._when(condition, "i32x4.all_true")
        f.code += inside
        f.else_()
        if storage.unit == WORD and index.is_variable:
            outside = self._code_of(lambda: self._load_first(storage))
            self._when(condition, "v128.any_true")
            f.code += apart
            f.else_()
            f.code += outside
            f.end()
        else:
            f.code += apart
        local = f.end().local("x", V128)
        f.set(local)
        return Held(storage.kind, LANES, local, depth=depth)

    def _load_or_first(self, storage: Storage, index: Index, choice: Choice) -> Held:
        """All lanes are inside, or all outside."""
        chosen = {v: constant(0) for v in index.variables() if v.name in self.choices}
        inside = self._code_of(lambda: self._load_vector(storage, choice.index))
        outside = self._code_of(lambda: self._load_lanes(storage, index.substitute(chosen)))
        self.push(choice.condition, 1)
        self.f.if_(V128)
        self.f.code += inside
        self.f.else_()
        self.f.code += outside
        local = self.f.end().local("x", V128)
        self.f.set(local)
        return Held(storage.kind, LANES, local, depth=self.scopes.depth)

    def _load_lanes(self, storage: Storage, index: Index) -> None:
        """Pushes a vector, whether lanes are neighbours, apart or all at one place."""
        stride = self.positions.stride(index)
        if stride == 1:
            self._load_vector(storage, index)
        elif stride == 0 and storage.unit == WORD:
            offset = self.positions.address(storage.local, index)
            self.f.emit("v128.load32_splat", offset=offset)
        else:
            self._gather(storage, index, stride)

    def _code_of(self, load: Callable[[], None]) -> bytearray:
        """The code of a load that is made under a condition."""
        with self.scopes.inside(conditional=True) as scope:
            load()
        return scope.body

    def _when(self, condition: Held, test: str) -> None:
        self.push(condition, condition.lanes)
        if condition.lanes > 1:
            self.f.emit(test)
        self.f.if_(V128)

    def _load_first(self, storage: Storage) -> None:
        """The first element of a tensor, for all lanes."""
        self.f.get(storage.local).emit("v128.load32_splat")

    def _load_vector(self, storage: Storage, index: Index) -> None:
        offset = self.positions.address(storage.local, index, unit=storage.unit)
        if storage.unit == WORD:
            self.f.emit("v128.load", offset=offset)
            return
        sign = "s" if storage.kind == "i32" else "u"
        self.f.emit("v128.load32_zero", offset=offset)
        self.f.emit(f"i16x8.extend_low_i8x16_{sign}").emit(f"i32x4.extend_low_i16x8_{sign}")

    def _is_in_pair(self, storage: Storage, index: Index) -> bool:
        """Whether it is one of two vectors of bytes side by side."""
        is_sum = all(isinstance(atom, Variable) for atom, _ in index.terms)
        return self.pair is not None and is_sum and storage.unit != WORD and not storage.written

    def _load_of_pair(self, storage: Storage, index: Index, depth: int) -> None:
        """One load of eight bytes, for two vectors."""
        assert self.pair is not None
        first, sign = index - self.pair * LANES, "s" if storage.kind == "i32" else "u"

        def emit() -> int:
            local = self.f.local("bytes", V128)
            offset = self.positions.address(storage.local, first, unit=storage.unit)
            self.f.emit(f"v128.load8x8_{sign}", offset=offset).set(local)
            return local

        self.f.get(self.scopes.once(("pair", storage, first), depth, emit))
        self.f.emit(f"i32x4.extend_{('low', 'high')[self.pair]}_i16x8_{sign}")

    def _gather(self, storage: Storage, index: Index, stride: int | None) -> None:
        near = stride is not None and stride > 0
        vector, unit = self.f.local("gathered", V128), storage.unit
        if unit != WORD:
            self.f.v128(bytes(16)).set(vector)
        for lane in range(LANES):
            offset = self.positions.address(storage.local, index, 0 if near else lane, unit)
            offset += lane * stride * unit if near and stride else 0
            if lane == 0 and unit == WORD:
                self.f.emit("v128.load32_zero", offset=offset)
            else:
                # A byte goes to the lowest one of its word.
                place = lane * WORD // unit
                self.f.get(vector).emit(f"v128.load{8 * unit}_lane", place, offset=offset)
            self.f.set(vector)
        self.f.get(vector)
        if unit != WORD and storage.kind == "i32":
            self.f.i32(24).emit("i32x4.shl").i32(24).emit("i32x4.shr_s")

    def store(self, target: Element, value: Expr, env: Env) -> None:
        assert isinstance(target.whole, Name)
        storage = env[target.whole.name]
        assert isinstance(storage, Storage)
        index = self.resolve_choices(self.position(target.index, env))
        held = self.value(value, env, storage.kind)
        stride = self.positions.stride(index)
        lanes = LANES if self.positions.in_lanes(index) and stride != 0 else 1
        if lanes == 1 and (held.lanes > 1 or self._is_one_of_many()):
            raise Unvectorisable("lanes would store at one place")
        if stride is None and not self._independent:
            raise Unvectorisable("lanes might store at one place")
        if stride is None:
            self.note(index)
        self.scopes.spend(NEAR if stride in (0, 1) else ANYWHERE if stride is None else APART)
        if lanes == 1 or stride == 1:
            offset = self.positions.address(storage.local, index)
            self.push(held, lanes)
            name = "v128.store" if lanes > 1 else _STORES[storage.kind]
            self.f.emit(name, offset=offset)
            return
        vector = self.f.local("scattered", V128)
        self.push(held, LANES)
        self.f.set(vector)
        for lane in range(LANES):
            offset = self.positions.address(storage.local, index, lane)
            self.f.get(vector).emit("v128.store32_lane", lane, offset=offset)

    def _is_one_of_many(self) -> bool:
        """Whether lanes are iterations of a loop: each would add to what the last one stored."""
        return self._lane_depth is not None and not self._independent


# With what a lane starts; None: with the value so far, which may be taken in several times.
_STARTS: dict[str, float | int | None] = {"+": 0, "*": 1, "max": None, "min": None, "|": 0}
_STARTS |= {"&": None}


@dataclass(frozen=True, slots=True)
class Reduction:
    """`name = combine(name, …)` with an operator or function that may be applied in any order."""

    name: str
    by: str

    @property
    def start(self) -> float | int | None:
        return _STARTS[self.by]

    def combine(self, left: Expr, right: Expr) -> Expr:
        if self.by in ("max", "min"):
            return Call(self.by, (left, right))
        return Binary(self.by, left, right)


def reductions_of(body: Sequence[Statement], outer: set[str]) -> list[Reduction] | None:
    """The reductions of a loop's body; None if it changes variables of `outer` in another way."""
    own = {s.name for s in body if isinstance(s, Let)}
    outer = outer - own
    reductions: dict[str, Reduction] = {}
    for statement in body:
        if isinstance(statement, Assign) and isinstance(statement.target, Name):
            name = statement.target.name
            if name not in outer:
                continue
            by = _accumulates(name, statement.value)
            if by is None or name in reductions:
                return None
            reductions[name] = Reduction(name, by)
        elif not assigned_names(statement).isdisjoint(outer):
            return None
    for statement in body:
        if _reads(statement) & reductions.keys():
            return None
    return list(reductions.values())


def _accumulates(name: str, value: Expr) -> str | None:
    match value:
        case Binary(op, Name(n), other) if n == name and op in _STARTS:
            return op if name not in names_of(other) else None
        case Binary(op, other, Name(n)) if n == name and op in _STARTS:
            return op if name not in names_of(other) else None
        case Call(op, (Name(n), other)) if n == name and op in _STARTS:
            return op if name not in names_of(other) else None
        case Call("fma", (a, b, Name(n))) if n == name:
            return "+" if name not in {**names_of(a), **names_of(b)} else None
    return None


def assigned_names(statement: Statement) -> set[str]:
    """The variables that a statement may assign."""
    inner = [*statements_of((statement,))]
    assigned = {
        s.target.name for s in inner if isinstance(s, Assign) and isinstance(s.target, Name)
    }
    heads = (first for loop in inner if isinstance(loop, Loop) for first in loop.before)
    return assigned - {first.name for first in heads if isinstance(first, Let)}


def _reads(statement: Statement) -> set[str]:
    """Names that it uses, but for the target it accumulates into."""
    names: set[str] = set()
    for inner in statements_of((statement,)):
        match inner:
            case Assign(Name(name), value):
                names |= names_of(value).keys() - {name}
            case _:
                names = names.union(*map(names_of, expressions_of(inner)))
    return names
