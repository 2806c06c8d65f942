"""From when to when values are in memory, in entries with loops.

What a loop reads lives until its last round has ended; its carries and stacks live from before the
first. What a round makes for itself lives within the round.
"""

from __future__ import annotations

from collections.abc import Iterator

from wgcc.ir.graph import Value
from wgcc.schedule.expand_loops import Expanded

Made = dict[str, tuple[Value, int]]


class Accesses:
    """Who makes and who reads what is in memory, by positions in the order of groups."""

    def __init__(self, expanded: Expanded) -> None:
        self._expanded = expanded
        self._known: dict[str, frozenset[str]] = {}

    def made(self) -> Made:
        """Values by name, each with the first group that writes it."""
        found: Made = {}
        packs = self._expanded.packs
        for span in self._expanded.loops:
            for whole in span.loop.stacks:
                pack = packs.of(whole.name)
                value = packs.value(pack) if pack else whole
                found[value.name] = (value, span.first - 1)
        for i, group in enumerate(self._expanded.order):
            for value in (value for root in group.roots for value in root.outputs):
                kept = self._expanded.same_place.get(value.name, value)
                found.setdefault(kept.name, (kept, i))
        own = {name: found[name] for name in found if name not in self._expanded.parts}
        return dict(sorted(own.items(), key=lambda item: item[1][1]))

    def reads(self, made: Made) -> list[tuple[int, set[str]]]:
        """Which names are needed until which position."""
        return [
            (self._end(position, made[name][1]), {name})
            for position, name in self._direct_reads()
            if name in made
        ]

    def _direct_reads(self) -> Iterator[tuple[int, str]]:
        for i, group in enumerate(self._expanded.order):
            for read in sorted(group.reads):
                yield from ((i, name) for name in sorted(self._in_memory(read)))
        for span in self._expanded.loops:
            for value in span.loop.node.outputs:
                yield from ((span.last, name) for name in sorted(self._in_memory(value.name)))

    def _end(self, position: int, start: int) -> int:
        """The end of the outermost loop that reads at `position` what was made before it."""
        spans = self._expanded.loops
        around = [s.last for s in spans if s.holds(position) and not s.holds(start)]
        return max(around, default=position)

    def _in_memory(self, name: str) -> frozenset[str]:
        """The tensors that hold a value: itself, or what it is part or a view of."""
        if name not in self._known:
            expanded = self._expanded
            kept = expanded.same_place[name].name if name in expanded.same_place else name
            if kept in expanded.parts:
                found = self._in_memory(expanded.parts[kept].whole.name)
            elif kept in expanded.fused.inlined:
                inputs = expanded.fused.inlined[kept].inputs
                found = frozenset().union(*(self._in_memory(value.name) for value in inputs))
            else:
                found = frozenset({expanded.packs.of(kept) or kept})
            self._known[name] = found
        return self._known[name]


__all__ = ["Accesses", "Made"]
