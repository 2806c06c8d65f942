"""Values of kernels and the scopes they live in.

A counted loop runs over a `LoopRange`. A scope is its body, a branch, or the function itself.
What depends on variables of outer scopes alone is appended to the outer scope, once: the code of an
inner scope follows only when that is complete, so all that was computed before is there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf

from wgcc.backends.wasm.encoding.instructions import F32, I32, V128
from wgcc.backends.wasm.encoding.module import WasmFunction
from wgcc.ir.index import LARGEST, Index, constant
from wgcc.ir.places import ceil_div
from wgcc.kernel.tree import Binary, Call, Element, Expr, Literal, Name

LANES = 4
WORD = 4
MOST_COUNTED = 1 << 29
# What is assumed of loops whose length is found at run time.
GUESSED = 32


@dataclass(frozen=True, slots=True)
class LoopRange:
    start: Index
    stop: Index
    step: int = 1
    # How many iterations are assumed where that is found at run time.
    guess: int = GUESSED

    @property
    def is_open(self) -> bool:
        """Whether its length is found at run time."""
        return not (self.start.is_constant and self.stop.is_constant)

    @property
    def trips(self) -> int:
        if self.is_open:
            return self.guess
        return max(0, ceil_div(self.stop.offset - self.start.offset, self.step))

    @property
    def may_be_empty(self) -> bool:
        return self.is_open or self.trips == 0

    @property
    def extent(self) -> int:
        """More than the greatest number it counts."""
        return max(self.stop.high, 2)

    @property
    def unit(self) -> int:
        """Counters hold bytes of words, unless those are too many for 32 bits."""
        return WORD if self.extent < MOST_COUNTED else 1

    @property
    def has_rest(self) -> bool:
        return self.trips % LANES > 0

    def vectors(self) -> LoopRange:
        """As many of its iterations as make up whole vectors."""
        return LoopRange(self.start, self.start + self.trips // LANES * LANES)

    def rest(self) -> LoopRange:
        return LoopRange(self.start + self.trips // LANES * LANES, self.stop)


def span_of(count: int) -> LoopRange:
    return LoopRange(constant(0), constant(count))


class Unvectorisable(Exception):
    """Lanes would have to do different things."""


@dataclass(frozen=True, slots=True)
class Held:
    """A value: a position that is known as such, a constant, or what a local holds.

    `depth`: the innermost scope that it depends on. `most`: no u32 there is greater.
    """

    kind: str
    lanes: int = 1
    local: int = -1
    index: Index | None = None
    number: float | int | bool | None = None
    depth: int = 0
    most: int = LARGEST


@dataclass(frozen=True, slots=True)
class Choice:
    """`select(0u, index, condition)`: a position in a tensor, or 0 beyond its border."""

    index: Index
    condition: Held


@dataclass(frozen=True, slots=True)
class Mutable:
    kind: str
    lanes: int
    local: int


@dataclass(frozen=True, slots=True)
class Storage:
    """A binding: the local with its address, the kind of its elements.

    Its positions count words, or bytes (`unit` 1), which are loaded as whole numbers.
    """

    local: int
    kind: str
    written: bool
    unit: int = WORD


Thing = Held | Mutable | Storage
Env = dict[str, Thing]


def word_of(expr: Expr) -> tuple[str, Expr, str] | None:
    """The binding and the index of a word that is loaded, and as what."""
    match expr:
        case Element(Name(name), index):
            return name, index, "u32"
        case Call("bitcast<i32>", (Element(Name(name), index),)):
            return name, index, "i32"
    return None


def most_of(expr: Expr, env: Env) -> int:
    """A bound of an expression of type u32."""
    match expr:
        case Literal(value):
            return int(value)
        case Name(name) if isinstance(held := env[name], Held):
            return held.most
        case Binary("&", left, right):
            return min(most_of(left, env), most_of(right, env))
        case Binary("/", left, Literal(by)) | Call("wg_div_u32", (left, Literal(by))) if by:
            return most_of(left, env) // int(by)
        case Binary("%", left, Literal(by)) | Call("wg_mod_u32", (left, Literal(by))) if by:
            return min(most_of(left, env), int(by) - 1)
    return LARGEST


def type_code(kind: str, lanes: int) -> int:
    if lanes > 1:
        return V128
    return F32 if kind == "f32" else I32


class TooCostly(Exception):
    """The code being written costs more than an alternative that is already known."""


@dataclass(slots=True)
class LocalScope:
    """`known` maps what was computed in it to locals.

    `conditional`: it may not run at all. `runs`: how often it runs, about.
    """

    conditional: bool = False
    runs: float = 1.0
    body: bytearray = field(default_factory=bytearray)
    known: dict[Hashable, int] = field(default_factory=dict)


class Scopes:
    """The open scopes of a function, outermost first. `cost` grows with what is emitted."""

    def __init__(self, function: WasmFunction) -> None:
        self.function = function
        self.cost = 0.0
        self._limit = inf
        outermost = LocalScope()
        self._open = [outermost]
        function.code = outermost.body

    @property
    def depth(self) -> int:
        return len(self._open) - 1

    @property
    def runs(self) -> float:
        return self._open[-1].runs

    def spend(self, cost: float, depth: int | None = None) -> None:
        scope = self._open[-1 if depth is None else depth]
        self.cost += cost * scope.runs
        if self.cost > self._limit:
            raise TooCostly

    @contextmanager
    def limit(self, cost: float) -> Iterator[None]:
        """Raises `TooCostly` if the code that is written meanwhile exceeds this cost."""
        before = self._limit
        self._limit = min(before, cost)
        try:
            yield
        finally:
            self._limit = before

    @contextmanager
    def apart(self) -> Iterator[list[float]]:
        """The code that is written meanwhile costs nothing here: the list gets its cost."""
        cost, limit, spent = self.cost, self._limit, list[float]()
        self._limit = inf
        try:
            yield spent
        finally:
            spent.append(self.cost - cost)
            self.cost, self._limit = cost, limit

    @contextmanager
    def inside(self, times: float = 1.0, conditional: bool = False) -> Iterator[LocalScope]:
        """A new scope; whoever opens it appends its `body` to the surrounding code afterwards."""
        around = self.function.code
        scope = LocalScope(conditional, self.runs * times)
        self._open.append(scope)
        self.function.code = scope.body
        try:
            yield scope
        finally:
            self._open.pop()
            self.function.code = around

    def snapshot(self) -> tuple[int, dict[Hashable, int]]:
        scope = self._open[-1]
        return len(scope.body), dict(scope.known)

    def restore(self, snapshot: tuple[int, dict[Hashable, int]]) -> None:
        """Forgets what the current scope got since the snapshot."""
        scope = self._open[-1]
        del scope.body[snapshot[0] :]
        scope.known = dict(snapshot[1])

    def hoistable(self, depth: int) -> int:
        """The outermost scope from `depth` on that runs only if all scopes inside it may run.

        What can fail, such as a load, must not leave a scope that may not run.
        """
        return max(
            (i for i in range(depth + 1, len(self._open)) if self._open[i].conditional),
            default=depth,
        )

    def once(self, key: Hashable, depth: int, emit: Callable[[], int]) -> int:
        """The local that holds `key`, computed by `emit` in the scope of this depth."""
        for scope in self._open[: depth + 1]:
            if key in scope.known:
                return scope.known[key]
        scope = self._open[depth]
        around, self.function.code = self.function.code, scope.body
        try:
            local = emit()
        finally:
            self.function.code = around
        scope.known[key] = local
        return local
