"""What a counted loop runs over: from `start` to `stop` (without), `step` at a time."""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.ir.index import Index, constant
from wgcc.ir.places import ceil_div

LANES = 4
WORD = 4
MOST_COUNTED = 1 << 29
# What is assumed of loops whose length is found at run time.
GUESSED = 32


@dataclass(frozen=True, slots=True)
class Span:
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

    def vectors(self) -> Span:
        """As many of its iterations as make up whole vectors."""
        return Span(self.start, self.start + self.trips // LANES * LANES)

    def rest(self) -> Span:
        return Span(self.start + self.trips // LANES * LANES, self.stop)


def fixed(count: int) -> Span:
    return Span(constant(0), constant(count))
