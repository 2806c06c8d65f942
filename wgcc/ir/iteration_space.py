"""Iteration spaces: which elements one kernel loops over, and which of the axes it reduces.

A space is a row-major box whose axes are merged into runs that are kept or reduced. `o` counts the
kept part (one result each), `r` the reduced part. It knows sizes only, not tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from wgcc.ir.index import Index, coordinates_of, linear, variable

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
        """Where in a tensor of this shape the element at hand is: one per (o, r), or per o."""
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
