"""Integer expressions of loop variables: the position of an element in a tensor.

An `Index` is kept in a normal form (a sum of atoms times whole numbers, plus a constant), so that
two ways of saying the same place compare equal and print short. It knows nothing of tensors.

Iteration spaces: which elements one kernel loops over, and which of the axes it reduces.

A space is a row-major box whose axes are merged into runs that are kept or reduced. `o` counts the
kept part (one result each), `r` the reduced part. It knows sizes only, not tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd, prod

# Kernels compute with u32, which wraps around: sums and products come right again where the result
# is small enough, but what is divided or compared must never be larger.
LARGEST = 2**32 - 1


class IndexTooLarge(Exception):
    """A position beyond `LARGEST` would have to be divided or compared."""

    def __init__(self, highest: int) -> None:
        super().__init__(f"positions here go up to {highest:,}; a kernel can count to {LARGEST:,}")


@dataclass(frozen=True, slots=True)
class Variable:
    """A loop variable or a value found at run time: `0 <= value < extent`."""

    name: str
    extent: int


@dataclass(frozen=True, slots=True)
class Quotient:
    """`dividend / divisor`, rounded down; the dividend is never negative."""

    dividend: Index
    divisor: int


@dataclass(frozen=True, slots=True)
class Remainder:
    dividend: Index
    divisor: int


Atom = Variable | Quotient | Remainder


@dataclass(frozen=True, slots=True)
class Index:
    """`sum(factor * atom) + offset`; terms are sorted and no factor is zero."""

    terms: tuple[tuple[Atom, int], ...] = ()
    offset: int = 0
    _hash: int = field(default=0, init=False, compare=False, repr=False)

    def __hash__(self) -> int:
        """Indices contain indices and are looked up often: each is hashed once."""
        if not self._hash:
            object.__setattr__(self, "_hash", hash((self.terms, self.offset)))
        return self._hash

    @property
    def low(self) -> int:
        return self.offset + sum(f * _high(a) for a, f in self.terms if f < 0)

    @property
    def high(self) -> int:
        """The greatest value it can take."""
        return self.offset + sum(f * _high(a) for a, f in self.terms if f > 0)

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def is_variable(self) -> bool:
        """Is it a variable alone?"""
        return not self.offset and [(type(a), f) for a, f in self.terms] == [(Variable, 1)]

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.offset + other)
        if not self.terms or not other.terms:
            return Index(self.terms or other.terms, self.offset + other.offset)
        return _sum([*self.terms, *other.terms], self.offset + other.offset)

    __radd__ = __add__

    def __mul__(self, factor: int) -> Index:
        if factor == 0:
            return constant(0)
        # Terms stay in order, and two that can be joined would have been before.
        return Index(tuple([(a, f * factor) for a, f in self.terms]), self.offset * factor)

    __rmul__ = __mul__

    def __sub__(self, other: Index | int) -> Index:
        return self + other * -1

    def __floordiv__(self, divisor: int) -> Index:
        return self if divisor == 1 else _divide(self, divisor)

    def __mod__(self, divisor: int) -> Index:
        return constant(0) if divisor == 1 else _remaining(self, divisor)

    def variables(self) -> set[Variable]:
        variables: set[Variable] = set()
        for atom, _ in self.terms:
            variables |= {atom} if isinstance(atom, Variable) else atom.dividend.variables()
        return variables

    def substitute(self, new: Mapping[Variable, Index]) -> Index:
        total = constant(self.offset)
        for atom, factor in self.terms:
            total = total + _substitute(atom, new) * factor
        return total

    def value(self, values: Mapping[str, int]) -> int:
        """The number it is where these variables have values and all others are 0."""
        return self.offset + sum(f * _value(atom, values) for atom, f in self.terms)

    def require_small(self) -> Index:
        """Return this index if it is small enough to be compared or divided, else raise."""
        if self.high > LARGEST:
            raise IndexTooLarge(self.high)
        return self

    def wgsl(self) -> str:
        """A u32 expression of the index; safe to multiply or compare when put in parentheses."""
        gains = [_term(a, f) for a, f in self.terms if f > 0]
        losses = [_term(a, -f) for a, f in self.terms if f < 0]
        if self.offset > 0 or not gains:
            gains.append(f"{max(self.offset, 0)}u")
        if self.offset < 0:
            losses.append(f"{-self.offset}u")
        return " - ".join([" + ".join(gains), *losses])

    def split(self, divisor: int) -> tuple[Index, Index]:
        """`self = whole * divisor + rest` with the multiples of the divisor in `whole`."""
        whole = [(a, f // divisor) for a, f in self.terms if f % divisor == 0]
        rest = [(a, f) for a, f in self.terms if f % divisor]
        least = sum(f * _high(a) for a, f in rest if f < 0)
        # The rest must not be negative: the offset gives up as many divisors as leave it so.
        moved = (self.offset + least) // divisor
        return _sum(whole, moved), _sum(rest, self.offset - moved * divisor)


Coordinates = tuple[Index, ...]


def constant(value: int) -> Index:
    return Index((), value)


def variable(name: str, extent: int) -> Index:
    """A variable of extent 1 is the constant 0."""
    return Index(((Variable(name, extent), 1),)) if extent > 1 else constant(0)


def indices(values: Iterable[Index | int]) -> tuple[Index, ...]:
    """Coordinates given as expressions or plain numbers."""
    return tuple(constant(value) if isinstance(value, int) else value for value in values)


def linear(coordinates: Sequence[Index], shape: Sequence[int]) -> Index:
    """The position in row-major order."""
    return _linear(tuple(coordinates), tuple(shape))


@lru_cache(maxsize=4096)
def _linear(coordinates: tuple[Index, ...], shape: tuple[int, ...]) -> Index:
    total = constant(0)
    for coordinate, extent in zip(coordinates, shape, strict=True):
        total = total * extent + coordinate
    return total


def coordinates_of(position: Index, shape: Sequence[int]) -> tuple[Index, ...]:
    """The coordinates of a row-major position."""
    return _coordinates_of(position, tuple(shape))


@lru_cache(maxsize=4096)
def _coordinates_of(position: Index, shape: tuple[int, ...]) -> tuple[Index, ...]:
    axis_indices = []
    for axis, extent in enumerate(shape):
        inner = prod(shape[axis + 1 :])
        outer_is_all = axis == 0 or prod(shape[:axis]) == 1
        quotient = position // inner
        axis_indices.append(quotient if outer_is_all else quotient % extent)
        if extent == 1:
            axis_indices[-1] = constant(0)
    return tuple(axis_indices)


def _high(atom: Atom) -> int:
    if isinstance(atom, Variable):
        return atom.extent - 1
    if isinstance(atom, Quotient):
        return atom.dividend.high // atom.divisor
    return min(atom.divisor - 1, atom.dividend.high)


def _sum(terms: Iterable[tuple[Atom, int]], offset: int) -> Index:
    factors: dict[Atom, int] = {}
    for atom, factor in terms:
        factors[atom] = factors.get(atom, 0) + factor
    kept = sorted(((a, f) for a, f in factors.items() if f), key=_order)
    index = Index(tuple(kept), offset)
    return _rejoin(index) if any(isinstance(a, Remainder) for a, _ in kept) else index


def _order(term: tuple[Atom, int]) -> tuple[int, str]:
    atom, factor = term
    return -abs(factor), _atom(atom)


def _rejoin(index: Index) -> Index:
    """`(x / c) * c + x % c` is `x`."""
    factors = dict(index.terms)
    for atom, factor in index.terms:
        if isinstance(atom, Remainder):
            quotient = atom.dividend // atom.divisor
            wanted = quotient * (factor * atom.divisor)
            if wanted.terms and all(factors.get(a) == f for a, f in wanted.terms):
                rest = [t for t in index.terms if t[0] != atom and t[0] not in dict(wanted.terms)]
                whole = atom.dividend * factor
                return _sum([*rest, *whole.terms], index.offset + whole.offset - wanted.offset)
    return index


@lru_cache(maxsize=16384)
def _divide(index: Index, divisor: int) -> Index:
    whole, rest = index.split(divisor)
    return whole + _quotient(rest, divisor)


@lru_cache(maxsize=16384)
def _remaining(index: Index, divisor: int) -> Index:
    _, rest = index.split(divisor)
    return _remainder(rest, divisor)


def _quotient(rest: Index, divisor: int) -> Index:
    if rest.low >= 0 and rest.high < divisor:
        return constant(0)
    shared = gcd(divisor, *(f for _, f in rest.terms))
    if shared > 1:
        # (g*x + o) / (g*d) = (x + o/g) / d, since what o/g loses is less than one part of g.
        smaller = Index(tuple((a, f // shared) for a, f in rest.terms), rest.offset // shared)
        return smaller // (divisor // shared)
    if digits := _digits(rest, divisor):
        high, _, base = digits
        return high // (divisor // base)
    if len(rest.terms) == 1 and rest.offset == 0 and rest.terms[0][1] == 1:
        atom = rest.terms[0][0]
        if isinstance(atom, Quotient):
            return atom.dividend // (atom.divisor * divisor)
        if isinstance(atom, Remainder) and atom.divisor % divisor == 0:
            return (atom.dividend // divisor) % (atom.divisor // divisor)
    return Index(((Quotient(rest, divisor), 1),))


def _remainder(rest: Index, divisor: int) -> Index:
    if rest.low >= 0 and rest.high < divisor:
        return rest
    if len(rest.terms) == 1 and rest.offset == 0:
        atom, factor = rest.terms[0]
        if factor == 1 and isinstance(atom, Remainder) and atom.divisor % divisor == 0:
            return atom.dividend % divisor
    shared = gcd(divisor, *(f for _, f in rest.terms))
    if shared > 1 and rest.offset % shared == 0:
        smaller = Index(tuple((a, f // shared) for a, f in rest.terms), rest.offset // shared)
        return (smaller % (divisor // shared)) * shared
    if digits := _digits(rest, divisor):
        high, low, base = digits
        return (high % (divisor // base)) * base + low
    return Index(((Remainder(rest, divisor), 1),))


def _digits(rest: Index, divisor: int) -> tuple[Index, Index, int] | None:
    """`rest = high * base + low` with `0 <= low < base` and a base that divides the divisor."""
    for base in sorted({gcd(f, divisor) for _, f in rest.terms} - {1}, reverse=True):
        low = Index(tuple((a, f) for a, f in rest.terms if f % base), rest.offset % base)
        if low.low >= 0 and low.high < base:
            high = tuple((a, f // base) for a, f in rest.terms if f % base == 0)
            return Index(high, rest.offset // base), low, base
    return None


def _value(atom: Atom, values: Mapping[str, int]) -> int:
    match atom:
        case Variable(name):
            return values.get(name, 0)
        case Quotient(dividend, divisor):
            return dividend.value(values) // divisor
        case Remainder(dividend, divisor):
            return dividend.value(values) % divisor


def _substitute(atom: Atom, new: Mapping[Variable, Index]) -> Index:
    if isinstance(atom, Variable):
        return new.get(atom, Index(((atom, 1),)))
    dividend = atom.dividend.substitute(new)
    return dividend // atom.divisor if isinstance(atom, Quotient) else dividend % atom.divisor


def _term(atom: Atom, factor: int) -> str:
    text = _atom(atom)
    return text if factor == 1 else f"{text} * {factor}u"


@lru_cache(maxsize=4096)
def _atom(atom: Atom) -> str:
    if isinstance(atom, Variable):
        return atom.name
    inner = atom.dividend.require_small().wgsl()
    alone = len(atom.dividend.terms) == 1 and inner.startswith("(") and inner.endswith(")")
    inner = f"({inner})" if " " in inner and not alone else inner
    sign = "/" if isinstance(atom, Quotient) else "%"
    return f"({inner} {sign} {atom.divisor}u)"


OUTER, INNER = "o", "r"


@dataclass(frozen=True, slots=True)
class Space:
    """`runs` are (is reduced, size), outermost first; neighbours differ, no run has size 1."""

    runs: tuple[tuple[bool, int], ...]

    @property
    def outer(self) -> int:
        return prod(size for reduced, size in self.runs if not reduced)

    @property
    def inner(self) -> int:
        return prod(size for reduced, size in self.runs if reduced)

    @property
    def size(self) -> int:
        return self.outer * self.inner

    def reduces(self) -> bool:
        return any(reduced for reduced, _ in self.runs)

    def position(self) -> Index:
        """The row-major position of element (o, r)."""
        kept = iter(coordinates_of(variable(OUTER, self.outer), self._sizes(False)))
        reduced = iter(coordinates_of(variable(INNER, self.inner), self._sizes(True)))
        coordinates = [next(reduced) if is_reduced else next(kept) for is_reduced, _ in self.runs]
        return linear(coordinates, [size for _, size in self.runs])

    def coordinates(self, shape: Sequence[int]) -> tuple[Index, ...]:
        """The current element's index along each axis of this shape: per (o, r), or per o."""
        size = prod(shape)
        if size == self.outer:
            return coordinates_of(variable(OUTER, self.outer), shape)
        assert size == self.size, f"{shape} does not fit {self.runs}"
        return coordinates_of(self.position(), shape)

    def _sizes(self, reduced: bool) -> list[int]:
        return [size for is_reduced, size in self.runs if is_reduced is reduced]


def flat_space(size: int) -> Space:
    """No reduction: one result per element."""
    return Space(((False, size),) if size > 1 else ())


def reduction_space(shape: Sequence[int], axes: Sequence[int]) -> Space:
    """The space of a reduction of `shape` over `axes`."""
    runs: list[tuple[bool, int]] = []
    for axis, size in enumerate(shape):
        reduced = axis in axes
        if size == 1:
            continue
        if runs and runs[-1][0] is reduced:
            runs[-1] = (reduced, runs[-1][1] * size)
        else:
            runs.append((reduced, size))
    if not any(reduced for reduced, _ in runs):
        # Nothing to reduce: still a space that reduces, one element for each result.
        runs.append((True, 1))
    return Space(tuple(runs))
