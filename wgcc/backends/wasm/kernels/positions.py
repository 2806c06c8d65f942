"""Positions in memory as instructions: sums of loop variables, each part in its own loop.

A loop variable that four lanes share has the value of the first of them; along it, a position grows
by a known number of elements from lane to lane, or else is computed lane by lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from wgcc.backends.wasm.encoding.instructions import I32, V128
from wgcc.backends.wasm.encoding.module import WasmFunction
from wgcc.backends.wasm.kernels.scopes import LANES, WORD, Scopes
from wgcc.ir.index import LARGEST, Atom, Index, Quotient, Variable

Terms = tuple[tuple[Atom, int], ...]
# The terms of a position by the depth of their scopes, outermost first.
Parts = tuple[tuple[int, Terms], ...]


@dataclass(frozen=True, slots=True)
class Counter:
    """A variable of positions: `local` holds `scale` times its value.

    `steps`: lane i has i more than the first. `varies`: `local` is a vector of whatever numbers.
    `depth`: the scope it belongs to.
    """

    local: int
    depth: int
    scale: int = 1
    steps: bool = False
    varies: bool = False


class Positions:
    def __init__(self, function: WasmFunction, scopes: Scopes) -> None:
        self.counters: dict[str, Counter] = {}
        self._f = function
        self._scopes = scopes

    def name(self, stem: str, counter: Counter) -> str:
        """A new variable's name."""
        name = f"{stem}#{len(self.counters)}"
        self.counters[name] = counter
        return name

    def depth(self, index: Index) -> int:
        """The innermost scope that a position depends on."""
        return max((self.counters[v.name].depth for v in index.variables()), default=0)

    def in_lanes(self, index: Index) -> bool:
        """Whether lanes have different positions."""
        return any(self._of(v).steps or self._of(v).varies for v in index.variables())

    def stride(self, index: Index) -> int | None:
        """How many elements are from lane to lane; None if that differs."""
        total = 0
        for atom, factor in index.terms:
            if isinstance(atom, Variable):
                counter = self._of(atom)
                if counter.varies:
                    return None
                total += factor if counter.steps else 0
            elif self.in_lanes(Index(((atom, 1),))):
                return None
        return total

    def divisors(self, index: Index) -> set[int]:
        """The divisors of variables that step: loops in rows of that length need no division."""
        divisors: set[int] = set()
        for atom, _ in index.terms:
            if not isinstance(atom, Variable):
                if any(self._of(v).steps for v in atom.dividend.variables()):
                    divisors.add(gcd(atom.divisor, atom.dividend.offset))
                divisors |= self.divisors(atom.dividend)
        return divisors

    def scalar(self, index: Index) -> int:
        """A local with the position (of the first lane)."""
        depth = self.depth(index)

        def emit() -> int:
            local = self._f.local("at", I32)
            self.push(index, 1)
            self._f.set(local)
            return local

        return self._scopes.once(("scalar", index), depth, emit)

    def vector(self, index: Index) -> int:
        """A local with the positions of all lanes."""
        return self._scopes.once(("vector", index), self.depth(index), lambda: self._vector(index))

    def _vector(self, index: Index) -> int:
        f, local = self._f, self._f.local("at", V128)
        stride = self.stride(index)
        if stride is not None:
            self.push(index, 1)
            f.emit("i32x4.splat")
            f.v128(b"".join((i * stride & 0xFFFFFFFF).to_bytes(4, "little") for i in range(LANES)))
            f.emit("i32x4.add").set(local)
            return local
        f.v128(bytes(16))
        for lane in range(LANES):
            self.push(index, 1, lane)
            f.emit("i32x4.replace_lane", lane)
        f.set(local)
        return local

    def address(self, base: int, index: Index, lane: int = 0, unit: int = WORD) -> int:
        """Pushes the address of an element of `unit` bytes.

        Gives the offset that the instruction must add.
        """
        parts: dict[int, list[tuple[Atom, int]]] = {}
        for atom, factor in index.terms:
            depth = self.depth(Index(((atom, 1),)))
            parts.setdefault(depth, []).append((atom, factor))
        offset = index.offset if self._is_positive(index) else 0
        constant = index.offset - offset
        here = parts.pop(self._scopes.depth, [])
        known = tuple((depth, tuple(terms)) for depth, terms in sorted(parts.items()))
        self._f.get(self._base(base, known, constant, lane, unit))
        for atom, factor in here:
            self._term(atom, factor * unit, lane)
            self._f.emit("i32.add")
        return offset * unit

    def _is_positive(self, index: Index) -> bool:
        """Whether the terms without the offset never sum up to less than zero."""
        return index.offset >= 0 and Index(index.terms).low >= 0 and index.offset < 1 << 28

    def _base(self, base: int, parts: Parts, constant: int, lane: int, unit: int) -> int:
        """A local with the address of what the outer scopes say."""
        if not parts:
            return self._sum(base, Index((), constant), 0, 0, unit) if constant else base
        (depth, terms), before = parts[-1], parts[:-1]
        start = self._base(base, before, constant, lane, unit)
        lane = lane if self.in_lanes(Index(terms)) else 0
        return self._sum(start, Index(terms), depth, lane, unit)

    def _sum(self, start: int, index: Index, depth: int, lane: int, unit: int) -> int:
        def emit() -> int:
            local = self._f.local("base", I32)
            self._f.get(start)
            for atom, factor in index.terms:
                self._term(atom, factor * unit, lane)
                self._f.emit("i32.add")
            if index.offset:
                self._f.i32(index.offset * unit).emit("i32.add")
            self._f.set(local)
            return local

        return self._scopes.once(("base", start, index, lane, unit), depth, emit)

    def push(self, index: Index, unit: int, lane: int = 0) -> None:
        """Pushes `unit` times a position, of one lane."""
        first = True
        for atom, factor in index.terms:
            self._term(atom, factor * unit, lane)
            if not first:
                self._f.emit("i32.add")
            first = False
        if index.offset or first:
            self._f.i32(index.offset * unit)
            if not first:
                self._f.emit("i32.add")

    def _term(self, atom: Atom, factor: int, lane: int = 0) -> None:
        if isinstance(atom, Variable):
            self._variable(self._of(atom), factor, lane)
            return
        if self.in_lanes(Index(((atom, 1),))):
            self._divide(atom, lane)
        else:
            depth = self.depth(Index(((atom, 1),)))
            self._f.get(self._scopes.once(("atom", atom), depth, lambda: self._local_of(atom)))
        self._times(factor)

    def _local_of(self, atom: Atom) -> int:
        local = self._f.local("part", I32)
        self._divide(atom, 0)
        self._f.set(local)
        return local

    def _divide(self, atom: Atom, lane: int) -> None:
        assert not isinstance(atom, Variable)
        self.push(atom.dividend, 1, lane)
        self._f.i32(atom.divisor)
        self._f.emit("i32.div_u" if isinstance(atom, Quotient) else "i32.rem_u")

    def _variable(self, counter: Counter, factor: int, lane: int) -> None:
        f = self._f.get(counter.local)
        if counter.varies:
            f.emit("i32x4.extract_lane", lane)
        if factor % counter.scale == 0:
            self._times(factor // counter.scale)
        else:
            f.i32(counter.scale.bit_length() - 1).emit("i32.shr_u")
            self._times(factor)
        if lane and counter.steps:
            f.i32(lane * factor).emit("i32.add")

    def _times(self, factor: int) -> None:
        if factor == 1:
            return
        if factor > 0 and factor & (factor - 1) == 0:
            self._f.i32(factor.bit_length() - 1).emit("i32.shl")
        else:
            self._f.i32(factor).emit("i32.mul")

    def _of(self, variable: Variable) -> Counter:
        return self.counters[variable.name]


def combine(op: str, left: Index, right: Index) -> Index | None:
    """A sum, product or quotient of positions, if it is a position."""
    if op == "+":
        return left + right
    if op == "-":
        return left - right
    if op == "*":
        if left.is_constant:
            return right * left.offset
        return left * right.offset if right.is_constant else None
    if not right.is_constant or right.offset <= 0 or left.low < 0 or left.high > LARGEST:
        return None
    return left // right.offset if op == "/" else left % right.offset
