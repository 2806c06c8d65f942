"""What a value of an entry is to the rows of its inputs: types, and how axes carry them.

An index along an axis may be made of digits, as reshape makes them: [rows, 3] as one axis has the
row in (index // 3) % rows.

The elements of a value may grow with the number of rows, n: `power` p says that they are n^p times
what does not depend on n. The number 1 / B has power -1, and so has a mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from wgcc.errors import Span

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Digit:
    """(index // inner) % size of an axis."""

    axis: int
    inner: int
    size: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """It does not depend on rows; all its elements are equal along the `uniform` digits."""

    uniform: frozenset[Digit] = frozenset()
    power: int = 0

    def is_uniform_along(self, row: Digit) -> bool:
        return any(
            digit.axis == row.axis
            and row.inner % digit.inner == 0
            and digit.size % (row.inner // digit.inner * row.size) == 0
            for digit in self.uniform
        )


@dataclass(frozen=True, slots=True)
class ByRow:
    """Elements whose `row` is i depend on the i-th rows of the inputs only, for all i alike."""

    row: Digit
    power: int = 0


@dataclass(frozen=True, slots=True)
class Total:
    """n^power times the sum over all n rows of what each gives alone: -1 is a mean."""

    power: int = 0


@dataclass(frozen=True, slots=True)
class Mixed:
    """Unknown: several rows may play a part, or their number, because of what `at` says."""

    at: Span | None
    by_number: bool = False


Kind = Fixed | ByRow | Total | Mixed


def whole_axis(axis: int, shape: Shape) -> Digit:
    return Digit(axis, 1, shape[axis])


def reshaped(digit: Digit, before: Shape, after: Shape) -> Iterator[Digit]:
    """What a digit of a shape is in another shape of the same elements: perhaps several digits."""
    low = digit.inner * prod(before[digit.axis + 1 :])
    high = low * digit.size
    base = 1
    for axis in reversed(range(len(after))):
        end = base * after[axis]
        first, last = max(low, base), min(high, end)
        ratios = ((first, base), (first, low), (last, first), (end, last), (high, last))
        if first < last and all(a % b == 0 for a, b in ratios):
            yield Digit(axis, first // base, last // first)
        base = end
