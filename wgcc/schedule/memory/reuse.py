"""Reuses a gradient's memory for temporaries before the gradient is written.

Updates read whole runs of the arena, so padding between gradients must stay zero: only places that
gradients themselves will fill are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from wgcc.schedule.kernel import ALIGNMENT, Place
from wgcc.schedule.layout import GRADS
from wgcc.schedule.memory.slots import Life
from wgcc.schedule.memory.timeline import Ranges, Timeline

# Behind the end of every buffer.
FAR = 1 << 62
Places = dict[str, Place]


@dataclass(frozen=True, slots=True)
class FreeSpan:
    """Words `start` to `end` of the arena, free before dispatch `until`."""

    start: int
    end: int
    until: int


class Arena:
    """Hands out places in a buffer of gradients. `free` is in order of place."""

    def __init__(self, free: tuple[FreeSpan, ...], buffer: str = GRADS) -> None:
        self._buffer = buffer
        self._length = max((piece.until for piece in free), default=0)
        self._never = _not_free(free)
        self._taken = Timeline(self._length, Ranges)
        for piece in free:
            self._taken.take(piece.until, self._length, piece.start, piece.end)

    def take(self, lives: Iterable[Life]) -> dict[str, Place]:
        """Places for the values that find room, in the order given."""
        found = {}
        for life in lives:
            at = self._room(life)
            if at is not None:
                self._taken.take(life.start, life.end + 1, at, at + _aligned(life.words))
                found[life.value.name] = life.place(self._buffer, at)
        return found

    def _room(self, life: Life) -> int | None:
        """The first boundary from where on enough words are free for long enough."""
        if life.end >= self._length:
            return None
        words, at = life.words, 0
        taken = self._taken.taken(life.start, life.end + 1)
        for start, end in sorted(chain(self._never, *taken)):
            if at + words <= start:
                return at
            if end > at:
                at = _aligned(end)
        return None


def _not_free(free: Iterable[FreeSpan]) -> Ranges:
    """Padding between gradients, and all that is behind the last of them."""
    found, end = Ranges(), 0
    for piece in free:
        if piece.start > end:
            found.add(end, piece.start)
        end = piece.end
    found.add(end, FAR)
    return found


def _aligned(words: int) -> int:
    return -(-words // ALIGNMENT) * ALIGNMENT


def free_spans(gradients: Mapping[int, Iterable[Place]]) -> tuple[FreeSpan, ...]:
    """From the places that each dispatch, by number, fills with gradients.

    A place that is filled twice, for two updates of a parameter, is free before the first alone.
    """
    first: dict[Place, int] = {}
    for dispatch in sorted(gradients):
        for place in gradients[dispatch]:
            first.setdefault(place, dispatch)
    free = (FreeSpan(p.offset, p.offset + p.count, dispatch) for p, dispatch in first.items())
    return tuple(sorted(free, key=lambda piece: piece.start))


def take_from_arenas(gradients: Mapping[int, Iterable[Place]], lives: list[Life]) -> Places:
    """Places for the values that find room in one of the buffers of gradients."""
    found: Places = {}
    for buffer in sorted({place.buffer for places in gradients.values() for place in places}):
        inside = {i: [p for p in gradients[i] if p.buffer == buffer] for i in gradients}
        left = [life for life in lives if life.value.name not in found]
        found |= Arena(free_spans(inside), buffer).take(left)
    return found


__all__ = ["Arena", "free_spans", "take_from_arenas"]
