"""Where the values of one entry lie, and for how long: inputs, outputs, temporaries.

Temporaries whose lives do not meet share a buffer. A value that becomes a parameter or state is
put there at once if nothing reads the old content later; otherwise it is copied at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from wgcc.ir.graph import Graph, Value
from wgcc.schedule.bindings import SCALARS
from wgcc.schedule.kernel import Place
from wgcc.schedule.layout import Layout


@dataclass(frozen=True, slots=True)
class Life:
    """A value in memory: made by dispatch `start`, read last by dispatch `end`."""

    value: Value
    start: int
    end: int


@dataclass(slots=True)
class Slots:
    """The temporary buffers of a program. Entries do not run at the same time and share them."""

    sizes: list[int] = field(default_factory=list)

    def assign(self, lives: Iterable[Life]) -> dict[str, Place]:
        """Give each value a slot no living value holds: the smallest that fits, or a grown one."""
        busy_until: dict[int, int] = {}
        places: dict[str, Place] = {}
        for life in sorted(lives, key=lambda life: (life.start, -life.value.type.size)):
            words = life.value.type.size
            free = [s for s in range(len(self.sizes)) if busy_until.get(s, -1) < life.start]
            slot = self._choose(free, words)
            busy_until[slot] = life.end
            places[life.value.name] = Place(f"temp{slot}", 0, words)
        return places

    def _choose(self, free: list[int], words: int) -> int:
        fitting = [s for s in free if self.sizes[s] >= words]
        if fitting:
            return min(fitting, key=lambda s: (self.sizes[s], s))
        if free:
            slot = max(free, key=lambda s: (self.sizes[s], -s))
            self.sizes[slot] = words
            return slot
        self.sizes.append(words)
        return len(self.sizes) - 1

    def reserve_in(self, layout: Layout) -> None:
        for slot, words in enumerate(self.sizes):
            layout.reserve(f"temp{slot}", "temp", words)


def io_places(graph: Graph, layout: Layout) -> dict[str, Place]:
    """Each input gets a buffer of its own; inputs of one element lie among the scalars."""
    places = {}
    for value in graph.inputs:
        name = f"{graph.name}/{value.name}"
        places[value.name] = own_place(name, "input", value, layout)
    return places


def own_place(name: str, role: str, value: Value, layout: Layout) -> Place:
    if value.type.size == 1:
        return layout.append(SCALARS, "state", 1)
    return layout.append(name, role, value.type.size)


def lives_of(stored: dict[str, tuple[Value, int]], reads: list[tuple[int, set[str]]]) -> list[Life]:
    """`stored` maps names to (value, its dispatch); `reads` lists what each dispatch reads."""
    last = {name: start for name, (_, start) in stored.items()}
    for dispatch, names in reads:
        for name in names & last.keys():
            last[name] = max(last[name], dispatch)
    return [Life(value, start, last[name]) for name, (value, start) in stored.items()]


__all__ = ["Life", "Slots", "io_places", "lives_of", "own_place"]
