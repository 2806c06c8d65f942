"""Iteration spaces: which elements one kernel walks over, and which of the axes it folds.

A space is a row-major box whose axes are merged into runs that are kept or folded. `o` counts the
kept part (one result each), `r` the folded part. It knows sizes only, not tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from wgcc.schedule.index import Index, coordinates_of, linear, variable

OUTER, INNER = "o", "r"


@dataclass(frozen=True, slots=True)
class Space:
    """`runs` are (is folded, size), outermost first; neighbours differ, no run has size 1."""

    runs: tuple[tuple[bool, int], ...]

    @property
    def outer(self) -> int:
        return prod(size for folded, size in self.runs if not folded)

    @property
    def inner(self) -> int:
        return prod(size for folded, size in self.runs if folded)

    @property
    def size(self) -> int:
        return self.outer * self.inner

    def folds(self) -> bool:
        return any(folded for folded, _ in self.runs)

    def position(self) -> Index:
        """The row-major position of element (o, r)."""
        kept = iter(coordinates_of(variable(OUTER, self.outer), self._sizes(False)))
        folded = iter(coordinates_of(variable(INNER, self.inner), self._sizes(True)))
        coordinates = [next(folded) if is_folded else next(kept) for is_folded, _ in self.runs]
        return linear(coordinates, [size for _, size in self.runs])

    def coordinates(self, shape: Sequence[int]) -> tuple[Index, ...]:
        """Where in a tensor of this shape the element at hand lies: one per (o, r), or per o."""
        size = prod(shape)
        if size == self.outer:
            return coordinates_of(variable(OUTER, self.outer), shape)
        assert size == self.size, f"{shape} does not fit {self.runs}"
        return coordinates_of(self.position(), shape)

    def _sizes(self, folded: bool) -> list[int]:
        return [size for is_folded, size in self.runs if is_folded is folded]


def flat_space(size: int) -> Space:
    """No folding: one result per element."""
    return Space(((False, size),) if size > 1 else ())


def folding_space(shape: Sequence[int], axes: Sequence[int]) -> Space:
    """The space of a reduction of `shape` over `axes`."""
    runs: list[tuple[bool, int]] = []
    for axis, size in enumerate(shape):
        folded = axis in axes
        if size == 1:
            continue
        if runs and runs[-1][0] is folded:
            runs[-1] = (folded, runs[-1][1] * size)
        else:
            runs.append((folded, size))
    if not any(folded for folded, _ in runs):
        runs.append((True, 1))  # nothing to fold: still a folding space, of one element a result
    return Space(tuple(runs))
