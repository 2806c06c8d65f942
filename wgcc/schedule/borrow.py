"""Temporaries in the arena of gradients: before a gradient is written, its place is free.

Updates read whole runs of the arena, so padding between gradients must stay zero: only places that
gradients themselves will fill are lent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wgcc.schedule.kernel import ALIGNMENT, Place
from wgcc.schedule.layout import GRADS
from wgcc.schedule.storage import Life


@dataclass(frozen=True, slots=True)
class Lent:
    """Words `start` to `end` of the arena, free before dispatch `until`."""

    start: int
    end: int
    until: int


@dataclass(slots=True)
class Arena:
    """What is lent to whom. `lent` is in order of place."""

    lent: tuple[Lent, ...]
    _held: list[tuple[int, Life]] = field(default_factory=list)

    def take(self, lives: Iterable[Life]) -> dict[str, Place]:
        """Places for the values that find room, the first come first."""
        found = {}
        for life in lives:
            at = self._room(life)
            if at is not None:
                self._held.append((at, life))
                found[life.value.name] = life.place(GRADS, at)
        return found

    def _room(self, life: Life) -> int | None:
        """The first boundary from where on enough words are lent for long enough."""
        at = end = -1
        for piece in self.lent:
            if piece.until <= life.end:
                at = end = -1
                continue
            if piece.start != end:
                at = piece.start
            end = piece.end
            while (blocking := self._blocking(at, life)) is not None:
                at = blocking
            if at >= end:
                at = end = -1
            elif end - at >= life.words:
                return at
        return None

    def _blocking(self, at: int, life: Life) -> int | None:
        """Where whoever lives there at the same time ends, on a boundary."""
        for start, other in self._held:
            meets = other.start <= life.end and life.start <= other.end
            if meets and start < at + life.words and at < start + other.words:
                return start + -(-other.words // ALIGNMENT) * ALIGNMENT
        return None


def lent_by(gradients: Mapping[int, Iterable[Place]]) -> tuple[Lent, ...]:
    """From the places that each dispatch, by number, fills with gradients.

    A place that is filled twice, for two updates of a parameter, is free before the first alone.
    """
    first: dict[Place, int] = {}
    for dispatch in sorted(gradients):
        for place in gradients[dispatch]:
            first.setdefault(place, dispatch)
    lent = (Lent(p.offset, p.offset + p.count, dispatch) for p, dispatch in first.items())
    return tuple(sorted(lent, key=lambda piece: piece.start))


__all__ = ["Arena", "lent_by"]
