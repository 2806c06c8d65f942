"""Reuses a gradient's memory for temporaries before the gradient is written.

Updates read whole runs of the arena, so padding between gradients must stay zero: only places that
gradients themselves will fill are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from wgcc.ir.places import ALIGNMENT, Place, ceil_div
from wgcc.schedule.layout import GRADS
from wgcc.schedule.memory.slots import Bits, Life, Timeline

Places = dict[str, Place]


@dataclass(frozen=True, slots=True)
class FreeSpan:
    """Words `start` to `end` of the arena, free before dispatch `until`."""

    start: int
    end: int
    until: int


class Arena:
    """Hands out places in a buffer of gradients. `free` is in order of place.

    Places begin on blocks of ALIGNMENT words, of which sets are kept as bits of one number.
    """

    def __init__(self, free: tuple[FreeSpan, ...], buffer: str = GRADS) -> None:
        self._buffer = buffer
        self._length = max((piece.until for piece in free), default=0)
        self._free = free
        self._with_words: dict[int, int] = {}
        self._taken = Timeline(self._length, Bits)
        for piece in free:
            self._take(piece.until, self._length, piece.start, piece.end)

    def take(self, lives: Iterable[Life]) -> dict[str, Place]:
        """Places for the values that find room, in the order given."""
        places = {}
        for life in lives:
            at = self._room(life)
            if at is not None:
                self._take(life.start, life.end + 1, at, at + life.words)
                places[life.value.name] = life.place(self._buffer, at)
        return places

    def _take(self, since: int, until: int, start: int, end: int) -> None:
        self._taken.take(since, until, start // ALIGNMENT, ceil_div(end, ALIGNMENT))

    def _room(self, life: Life) -> int | None:
        """The first block from where on enough words are free for long enough."""
        if life.end >= self._length:
            return None
        taken = self._taken.sets_during(life.start, life.end + 1)
        free = ~reduce(or_, (bits.mask for bits in taken), 0)
        whole, rest = divmod(life.words, ALIGNMENT)
        starts = _starts_of_runs(self._blocks(ALIGNMENT) & free, whole) if whole else free
        starts &= (self._blocks(rest) & free) >> whole if rest else starts
        return ((starts & -starts).bit_length() - 1) * ALIGNMENT if starts else None

    def _blocks(self, words: int) -> int:
        """The blocks that gradients fill with at least so many words from their start on."""
        if words not in self._with_words:
            blocks = Bits()
            for piece in self._free:
                first = piece.start // ALIGNMENT
                # The last block of a piece need not be whole.
                blocks.add(
                    first, first + (piece.end - piece.start + ALIGNMENT - words) // ALIGNMENT
                )
            self._with_words[words] = blocks.mask
        return self._with_words[words]


def _starts_of_runs(bits: int, length: int) -> int:
    """The positions, as bits, from which `length` bits in a row are set."""
    known = 1
    while known < length:
        step = min(known, length - known)
        bits &= bits >> step
        known += step
    return bits


def free_spans(gradients: Mapping[int, Iterable[Place]]) -> tuple[FreeSpan, ...]:
    """The spans that are free until a dispatch, by number, fills them with gradients.

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
    placements: Places = {}
    for buffer in sorted({place.buffer for places in gradients.values() for place in places}):
        inside = {i: [p for p in gradients[i] if p.buffer == buffer] for i in gradients}
        left = [life for life in lives if life.value.name not in placements]
        placements |= Arena(free_spans(inside), buffer).take(left)
    return placements
