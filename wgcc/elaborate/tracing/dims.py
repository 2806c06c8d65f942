"""Compile-time sizes: whole numbers that record how they were computed. Independent of tensors.

A `Dim` carries a polynomial over the declared dims, so `D / H * H` is `D`, while two unrelated dims
that both happen to be 64 stay different.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction

# A declared dim: its name, and the place and value of its declaration, because two files may both
# have a `D`, and a layer's own dim may differ from instance to instance.
Atom = tuple[str, str]
Monomial = tuple[tuple[Atom, int], ...]
Polynomial = Mapping[Monomial, Fraction]

# Beyond these limits the origin of a size is dropped, so that comparing sizes stays cheap.
MOST_TERMS = 64
MOST_PRODUCTS = 256
LARGEST_FACTOR = 2**64

_placeholders = itertools.count(1)


class Match(Enum):
    """How two sizes compare: equal by construction, equal by coincidence, or different."""

    SAME = "same"
    COINCIDENCE = "coincidence"
    DIFF = "diff"


SAME, COINCIDENCE, DIFF = Match.SAME, Match.COINCIDENCE, Match.DIFF


@dataclass(frozen=True, eq=False)
class Dim:
    """A whole number known at compile time (it may be negative or zero: `-1`, `i - 1`).

    `polynomial` is None where the origin is lost (`%`, rounding). `generic` marks placeholder
    sizes, for the check of a layer that nothing uses: such a number is never shown.
    """

    size: int
    polynomial: Polynomial | None = None
    name: str = ""
    generic: bool = False

    @staticmethod
    def literal(size: int) -> Dim:
        return Dim(size, {(): Fraction(size)} if size else {})

    @staticmethod
    def of_name(name: str, size: int, place: str = "") -> Dim:
        """`place` distinguishes dims of the same name with different declarations."""
        return Dim(size, {(((name, f"{place}:{size}"), 1),): Fraction(1)}, name)

    @staticmethod
    def placeholder(name: str) -> Dim:
        """A placeholder size: one that no program uses, so that two never agree by coincidence."""
        return replace(Dim.of_name(name, _fresh_size()), generic=True)

    @property
    def is_literal(self) -> bool:
        return self.polynomial is not None and all(key == () for key in self.polynomial)

    @property
    def is_one(self) -> bool:
        """A literal 1: the only size that stretches."""
        return self.size == 1 and self.is_literal

    def declared_dims(self) -> list[tuple[str, int]]:
        """The names and sizes of the dims that it is computed from, where that is known."""
        atoms = [atom for monomial in self.polynomial or () for atom, _ in monomial]
        return [(atom[0], _size(atom)) for atom in dict.fromkeys(atoms)]

    def work_with(self, other: Dim) -> int:
        """Roughly the number of terms in a computation with both."""
        terms = [len(dim.polynomial or ()) for dim in (self, other)]
        return terms[0] * terms[1]

    def with_name(self, name: str) -> Dim:
        return replace(self, name=name)

    def __add__(self, other: Dim) -> Dim:
        return self._join(self.size + other.size, _add(self.polynomial, other.polynomial, 1), other)

    def __sub__(self, other: Dim) -> Dim:
        return self._join(
            self.size - other.size, _add(self.polynomial, other.polynomial, -1), other
        )

    def __mul__(self, other: Dim) -> Dim:
        return self._join(
            self.size * other.size, _multiply(self.polynomial, other.polynomial), other
        )

    def __neg__(self) -> Dim:
        return Dim.literal(0) - self

    def divided_by(self, other: Dim) -> Dim | None:
        """Exact division; None if it leaves a remainder."""
        if other.size == 0:
            return None
        quotient, remainder = divmod(self.size, other.size)
        if remainder and not (self.generic or other.generic):
            return None
        polynomial = _multiply(self.polynomial, _inverse(other.polynomial))
        return self._join(_fresh_size() if remainder else quotient, polynomial, other)

    def __str__(self) -> str:
        if self.name or self.polynomial is None:
            return self.name or str(self.size)
        return _polynomial_text(self.polynomial)

    @property
    def full(self) -> str:
        """`D = 128`, or `128` for a literal, or `D` for a placeholder."""
        text = str(self)
        return text if self.generic or text == str(self.size) else f"{text} = {self.size}"

    def _join(self, size: int, polynomial: Polynomial | None, other: Dim) -> Dim:
        return Dim(size, polynomial, generic=self.generic or other.generic)


def compare(a: Dim, b: Dim) -> Match:
    """A plain number equals any size of that value; different dims agree only by coincidence."""
    if a.polynomial is not None and a.polynomial == b.polynomial:
        return SAME
    if a.size != b.size:
        return DIFF
    if a.is_literal or b.is_literal or a.polynomial is None or b.polynomial is None:
        return SAME
    pairs = (a.polynomial, b.polynomial), (b.polynomial, a.polynomial)
    return SAME if any(_has_numbers_for_names(*pair) for pair in pairs) else COINCIDENCE


def _has_numbers_for_names(numbers: Polynomial, names: Polynomial) -> bool:
    """Whether the first is the second with numbers in place of dims: `7 * D` for `F * D`."""
    known = {atom for monomial in numbers for atom, _ in monomial}
    polynomial: dict[Monomial, Fraction] = {}
    replaced: set[Monomial] = set()
    for monomial, factor in names.items():
        kept = tuple((atom, power) for atom, power in monomial if atom in known)
        others = [(_size(atom), power) for atom, power in monomial if atom not in known]
        if any(size == 0 for size, _ in others):
            return False
        factor *= math.prod(Fraction(size) ** power for size, power in others)
        polynomial[kept] = polynomial.get(kept, Fraction(0)) + factor
        replaced |= {kept} if others else set()
    # A factor of 1 was not written by the user.
    return polynomial == numbers and all(
        polynomial[monomial] != 1 for monomial in replaced if monomial
    )


def _size(atom: Atom) -> int:
    return int(atom[1].rpartition(":")[2])


def product(dims: Iterable[Dim]) -> Dim:
    result = Dim.literal(1)
    for dim in dims:
        result = result * dim
    return result


def sizes_of(dims: Iterable[Dim]) -> tuple[int, ...]:
    return tuple(dim.size for dim in dims)


def shape_text(dims: Iterable[Dim]) -> str:
    """`B, T, D`."""
    return ", ".join(map(str, dims))


def sizes_note(*lists: Iterable[Dim]) -> str:
    """`here B = 8, D = 32`: what the names in a message stand for; empty if there are none."""
    texts = [dim.full for dims in lists for dim in dims if not dim.is_literal and not dim.generic]
    return "here " + ", ".join(dict.fromkeys(texts)) if texts else ""


def _fresh_size() -> int:
    # A multiple of 5040, so that small divisors divide it.
    return 5040 * (1_000_003 + 2 * next(_placeholders))


def _add(a: Polynomial | None, b: Polynomial | None, sign: int) -> Polynomial | None:
    if a is None or b is None:
        return None
    result = dict(a)
    for monomial, factor in b.items():
        result[monomial] = result.get(monomial, Fraction(0)) + sign * factor
    return _simple(result)


def _multiply(a: Polynomial | None, b: Polynomial | None) -> Polynomial | None:
    if a is None or b is None or len(a) * len(b) > MOST_PRODUCTS:
        return None
    result: dict[Monomial, Fraction] = {}
    for monomial_a, factor_a in a.items():
        for monomial_b, factor_b in b.items():
            monomial = _multiply_monomials(monomial_a, monomial_b)
            result[monomial] = result.get(monomial, Fraction(0)) + factor_a * factor_b
    return _simple(result)


def _simple(polynomial: Polynomial) -> Polynomial | None:
    terms = {monomial: factor for monomial, factor in polynomial.items() if factor}
    factors = (max(abs(factor.numerator), factor.denominator) for factor in terms.values())
    is_simple = len(terms) <= MOST_TERMS and max(factors, default=0) <= LARGEST_FACTOR
    return terms if is_simple else None


def _multiply_monomials(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted((atom, power) for atom, power in powers.items() if power))


def _inverse(polynomial: Polynomial | None) -> Polynomial | None:
    """Only a single term has an inverse that is a single term."""
    if polynomial is None or len(polynomial) != 1:
        return None
    ((monomial, factor),) = polynomial.items()
    return {tuple((atom, -power) for atom, power in monomial): 1 / factor}


def _polynomial_text(polynomial: Polynomial) -> str:
    terms = sorted(polynomial.items(), key=lambda item: (-len(item[0]), str(item[0])))
    text = ""
    for monomial, factor in terms:
        sign = "-" if factor < 0 else "+"
        term = _term_text(monomial, abs(factor))
        text += f" {sign} {term}" if text else f"-{term}" if factor < 0 else term
    return text or "0"


def _term_text(monomial: Monomial, factor: Fraction) -> str:
    above = [_power_text(name, power) for (name, _), power in monomial if power > 0]
    below = [_power_text(name, -power) for (name, _), power in monomial if power < 0]
    if factor.denominator != 1:
        below.append(str(factor.denominator))
    if factor.numerator != 1 or not above:
        above.insert(0, str(factor.numerator))
    return "*".join(above) + "".join(f"/{name}" for name in below)


def _power_text(name: str, power: int) -> str:
    return name if power == 1 else f"{name}**{power}"
