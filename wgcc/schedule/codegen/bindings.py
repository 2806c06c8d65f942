"""The variables in memory of one kernel: name, element type and access of each region.

Positions in them, and numbers and types as they stand in kernels, are here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache

from wgcc.ir.dtypes import F16, FLOATS
from wgcc.ir.graph import Value
from wgcc.ir.index import Atom, Index, Quotient, Variable, variable
from wgcc.ir.loops import Part
from wgcc.ir.places import SCALARS
from wgcc.kernel.build import expression, in_parens, member, select, u32
from wgcc.kernel.tree import Assign, Binary, Call, Element, Expr, Member, Name, names_of
from wgcc.ops.registry import literal, wgsl_type
from wgcc.schedule.kernel import BYTES, VECTOR, WORD, Binding, Grid, Place


def element_type(dtype: str) -> str:
    """The type of the word that holds an element in a buffer."""
    return "u32" if dtype == "bool" else wgsl_type(dtype)


def number(value: float | int | bool, dtype: str) -> Expr:
    return expression(literal(value, dtype))


def zero(dtype: str) -> Expr:
    return number(0, dtype)


def is_number(expr: Expr) -> bool:
    return not names_of(expr)


def clamp_index(index: Expr, limit: int, dtype: str) -> Expr:
    """A run-time index of some integer type as a u32 that is at most `limit`."""
    if wgsl_type(dtype) == "u32":
        return Call("min", (index, u32(limit)))
    return expression("u32(clamp(INDEX, 0, LIMIT))", INDEX=index, LIMIT=expression(f"{limit}"))


@lru_cache(maxsize=16384)
def expr_of(index: Index) -> Expr:
    """A position as a u32 expression."""
    gains = [_term(atom, factor) for atom, factor in index.terms if factor > 0]
    losses = [_term(atom, -factor) for atom, factor in index.terms if factor < 0]
    if index.offset > 0 or not gains:
        gains.append(u32(max(index.offset, 0)))
    if index.offset < 0:
        losses.append(u32(-index.offset))
    total, *others = gains
    for other in others:
        total = Binary("+", total, other)
    for loss in losses:
        total = Binary("-", total, loss)
    return total


def _term(atom: Atom, factor: int) -> Expr:
    expr = _atom(atom)
    return expr if factor == 1 else Binary("*", expr, u32(factor))


def _atom(atom: Atom) -> Expr:
    if isinstance(atom, Variable):
        return member(atom.name)
    op = "/" if isinstance(atom, Quotient) else "%"
    dividend = in_parens(expr_of(atom.dividend.require_small()))
    return Binary(op, dividend, u32(atom.divisor), parens=True)


def thread_index(grid: Grid, threads: int) -> Expr:
    """The number of a thread (`id`: global_invocation_id), or of a workgroup (`threads` = 1)."""
    if grid[1] == 1:
        return expression("id.x")
    return expression("id.y * WIDTH + id.x", WIDTH=u32(grid[0] * threads))


# A counter of rounds: uniforms take 16 bytes, of which the first word is used.
COUNTER_TYPE = "vec4u"
_FIRST = "x"


@dataclass(frozen=True, slots=True)
class Touch:
    """An element of a region that is loaded or stored; `element` is the type it is bound with."""

    region: Place
    element: str
    position: Index
    written: bool

    @property
    def may_be_vector(self) -> bool:
        """Is it always the same component of a vector, in a region of whole vectors of floats?"""
        return (
            self.element in FLOATS
            and self.region.buffer != SCALARS
            and self.region.count % VECTOR == 0
            and vector_parts(self.position) is not None
        )


Parts = Mapping[str, Part]
Hoisting = Callable[[Index], Index]


def is_counter(name: str) -> bool:
    """Is a variable of an index the number of the round, the same for all threads?"""
    return name.endswith(f".{_FIRST}")


def identity(index: Index) -> Index:
    return index


class Bindings:
    """Names regions in the order of first use: `x…` for what is read, `y…` for what is written.

    `parts` are the values of one round that are stored in the tensors of all rounds. `vectors` are
    regions that are bound as arrays of four elements each. `touched` lists what was asked for, with
    its position in its region, so that a trial shows which regions may be such.
    """

    def __init__(
        self,
        place: Callable[[Value], Place],
        scalar_words: int,
        parts: Parts | None = None,
        vectors: Set[Place] = frozenset(),
    ) -> None:
        self._place = place
        self._scalar_words = scalar_words
        self._parts = parts or {}
        self._names: dict[Place, str] = {}
        self._elements: dict[Place, str] = {}
        self._written: set[Place] = set()
        self._shown: dict[Place, list[str]] = {}
        self.vectors = vectors
        self.touched: list[Touch] = []

    def load(
        self, value: Value, position: Index, hoist: Hoisting = identity, named: bool = False
    ) -> Expr:
        """`hoist` may put an index in terms of what was computed before.

        `named`: the position is the name of one that `look_at` was given.
        """
        value, position = self._in_whole(value, position)
        name, offset = self._bind(value, "x")
        if self._place(value).uniform:
            return Member(Name(name), _FIRST)
        if self._is_packed(value) and name != SCALARS:
            word = Element(Name(name), expr_of(hoist(position // 4)))
            return _byte(word, expr_of(hoist(position % 4 * 8)), value.dtype)
        if not named:
            self._touch(value, position + offset)
        element = self._element(value, name, position, offset, hoist)
        if self._place(value).half:
            return Call("f32", (element,))
        if self._is_packed(value):
            return _byte(element, u32(0), value.dtype)
        return _from_word(element, value.dtype, name == SCALARS)

    def vector(self, value: Value, position: Index) -> tuple[str, Index, int] | None:
        """Finds an element in a region of vectors: name, number of the vector, component.

        Gives None if its place is not known before the kernel runs.
        """
        value, position = self._in_whole(value, position)
        if self.region(value) not in self.vectors:
            return None
        name, offset = self._bind(value, "x")
        return (name, *parts) if (parts := vector_parts(position + offset)) else None

    def look_at(self, value: Value, position: Index) -> None:
        """Note that an element is touched whose position is only named in what follows."""
        value, position = self._in_whole(value, position)
        self._touch(value, position + self._bind(value, "x")[1])

    def is_half(self, value: Value) -> bool:
        return self._place(self._in_whole(value, variable("i", 1))[0]).half

    def store_vector(self, value: Value, position: Index, parts: list[Expr]) -> Assign:
        """Stores four elements, the first of them at a position."""
        value, position = self._in_whole(value, position)
        name, offset = self._bind(value, "y")
        self._written.add(self.region(value))
        place = vector_parts(position + offset)
        assert place is not None and place[1] == 0 and self.region(value) in self.vectors
        kind = "vec4<f16>" if self._place(value).half else "vec4<f32>"
        parts = [Call(F16, (part,)) for part in parts] if self._place(value).half else parts
        return Assign(Element(Name(name), expr_of(place[0])), Call(kind, tuple(parts)))

    def store(self, value: Value, position: Index, element: Expr) -> Assign:
        value, position = self._in_whole(value, position)
        name, offset = self._bind(value, "y")
        self._written.add(self.region(value))
        self._touch(value, position + offset, written=True)
        target = Element(Name(name), expr_of(position + offset))
        if self._place(value).half:
            return Assign(target, Call(F16, (element,)))
        if self._is_packed(value):
            assert name == SCALARS, "what is stored by element is one word, or `pack`ed before"
            return Assign(target, byte_of(element, value.dtype))
        return Assign(target, _to_word(element, value.dtype, name == SCALARS))

    def load_word(self, value: Value, position: Index) -> Expr:
        """A word of a value whose elements are packed."""
        name, offset = self._bind(value, "y")
        return Element(Name(name), expr_of(position + offset))

    def store_word(self, value: Value, position: Index, word: Expr) -> Assign:
        self._written.add(self.region(value))
        return Assign(self.load_word(value, position), word)

    def part(self, value: Value) -> Part | None:
        return self._parts.get(value.name)

    def round(self, part: Part) -> Index:
        """The position of the current round."""
        return variable(f"{self._bind(part.index, 'round')[0]}.{_FIRST}", part.rounds)

    def _in_whole(self, value: Value, position: Index) -> tuple[Value, Index]:
        """The tensor of all rounds, and the position that an element of a part has in it."""
        while part := self._parts.get(value.name):
            position = self.round(part) * value.type.size + position
            value = part.whole
        return value, position

    def region(self, value: Value) -> Place:
        place = self._place(value)
        if place.buffer == SCALARS:
            return Place(SCALARS, 0, self._scalar_words)
        return place.bound

    def use(self, region: Place, element: str, stem: str, shown: str, written: bool) -> str:
        """Bind a region directly; gives its name."""
        if region not in self._names:
            taken = sum(name.startswith(stem) for name in self._names.values())
            self._names[region] = SCALARS if region.buffer == SCALARS else f"{stem}{taken}"
            self._elements[region] = element
            self._shown[region] = []
        if shown not in self._shown[region]:
            self._shown[region].append(shown)
        if written:
            self._written.add(region)
        return self._names[region]

    def regions(self) -> tuple[Place, ...]:
        return tuple(self._names)

    def declarations(self) -> tuple[Binding, ...]:
        return tuple(
            Binding(
                name,
                self._elements[region],
                region.bytes // BYTES.get(self._elements[region], WORD),
                region in self._written,
                uniform=region.uniform,
            )
            for region, name in self._names.items()
        )

    def shows(self) -> tuple[tuple[str, ...], ...]:
        """The header comment's texts: for each binding, the values it holds."""
        return tuple(tuple(self._shown[region]) for region in self._names)

    def _bind(self, value: Value, stem: str) -> tuple[str, int]:
        place, region = self._place(value), self.region(value)
        if place.buffer == SCALARS:
            self.use(region, "u32", stem, "values of one element", written=False)
            return SCALARS, place.offset
        element = F16 if place.half else element_type(value.dtype)
        element = "u32" if place.in_bytes else element
        if region in self.vectors:
            element = "vec4h" if place.half else "vec4f"
        if place.uniform:
            return self.use(region, COUNTER_TYPE, "round", shown_as(value), written=False), 0
        return self.use(region, element, stem, shown_as(value), written=False), place.first

    def _element(
        self, value: Value, name: str, position: Index, offset: int, hoist: Hoisting
    ) -> Expr:
        if self.region(value) not in self.vectors:
            return Element(Name(name), expr_of(hoist(position) + offset))
        at = position + offset
        vector = Element(Name(name), expr_of(hoist(at // VECTOR)))
        return Element(vector, expr_of(hoist(at % VECTOR)))

    def _touch(self, value: Value, position: Index, written: bool = False) -> None:
        region = self.region(value)
        self.touched.append(Touch(region, self._elements[region], position, written))

    def _is_packed(self, value: Value) -> bool:
        """Words that were packed before are stored to packed places as they are."""
        return self._place(value).in_bytes and value.type.is_packed


def vector_parts(position: Index) -> tuple[Index, int] | None:
    """The number of the vector that holds an element and its component, if that is always one."""
    number, rest = position.split(VECTOR)
    return (number, rest.offset) if rest.is_constant else None


def shown_as(value: Value) -> str:
    """How a value is named to readers of kernels."""
    return f"{value.name} {value.type}"


def byte_of(element: Expr, dtype: str) -> Expr:
    """An element as a byte, the lowest of a u32."""
    if dtype == "bool":
        return select(u32(0), u32(1), element)
    if wgsl_type(dtype) != "i32":
        return element
    return Binary("&", Call("bitcast<u32>", (element,)), u32(255))


def _byte(word: Expr, bit: Expr, dtype: str) -> Expr:
    """An element of a word of four, which starts at a bit."""
    word = Call("bitcast<i32>", (word,)) if wgsl_type(dtype) == "i32" else word
    byte = Call("extractBits", (word, bit, u32(8)))
    return Binary("!=", byte, u32(0)) if dtype == "bool" else byte


def _from_word(word: Expr, dtype: str, is_scalar: bool) -> Expr:
    if dtype == "bool":
        return Binary("!=", word, u32(0))
    kind = wgsl_type(dtype)
    return Call(f"bitcast<{kind}>", (word,)) if is_scalar and kind != "u32" else word


def _to_word(element: Expr, dtype: str, is_scalar: bool) -> Expr:
    if dtype == "bool":
        return select(u32(0), u32(1), element)
    is_bitcast = is_scalar and wgsl_type(dtype) != "u32"
    return Call("bitcast<u32>", (element,)) if is_bitcast else element
