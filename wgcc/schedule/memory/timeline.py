"""What is taken at which time: a segment tree over the dispatches of an entry.

A question about a stretch of time looks at a number of sets that grows with the logarithm of the
entry's length, however much is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class _Taken(Protocol):
    """A set of places, as ranges of numbers."""

    def add(self, start: int, end: int) -> None: ...


Taken = TypeVar("Taken", bound=_Taken)


@dataclass(slots=True)
class Bits:
    """A set of small whole numbers as the bits of one number."""

    mask: int = 0

    def add(self, start: int, end: int) -> None:
        self.mask |= (1 << end) - (1 << start)


class Timeline(Generic[Taken]):
    """Times are whole numbers from 0 up to, not including, `length`.

    Each node of the tree stands for a stretch of time and has two sets: what is taken throughout,
    and what is taken at some time of it.
    """

    def __init__(self, length: int, empty: Callable[[], Taken]) -> None:
        self._leaves = 1 << max(length - 1, 0).bit_length()
        self._empty = empty
        self._throughout: dict[int, Taken] = {}
        self._sometimes: dict[int, Taken] = {}

    def take(self, since: int, until: int, start: int, end: int) -> None:
        """Take the places `start` to `end` from `since` on; `until` and `end` are not included."""
        nodes = self._nodes(since, until)
        for node in nodes:
            self._set(self._throughout, node).add(start, end)
        for node in {*nodes, *self._above(nodes)}:
            self._set(self._sometimes, node).add(start, end)

    def taken(self, since: int, until: int) -> list[Taken]:
        """Sets that together hold what is taken at any of these times."""
        nodes = self._nodes(since, until)
        found = [self._sometimes[node] for node in nodes if node in self._sometimes]
        return found + [self._throughout[n] for n in self._above(nodes) if n in self._throughout]

    def _nodes(self, since: int, until: int) -> list[int]:
        """The fewest nodes that make up a stretch; the children of node n are 2n and 2n + 1."""
        found = []
        low, high = since + self._leaves, until + self._leaves
        while low < high:
            if low % 2:
                found.append(low)
                low += 1
            if high % 2:
                high -= 1
                found.append(high)
            low, high = low // 2, high // 2
        return found

    def _above(self, nodes: list[int]) -> set[int]:
        found: set[int] = set()
        for node in nodes:
            node //= 2
            while node and node not in found:
                found.add(node)
                node //= 2
        return found

    def _set(self, sets: dict[int, Taken], node: int) -> Taken:
        if node not in sets:
            sets[node] = self._empty()
        return sets[node]


__all__ = ["Bits", "Timeline"]
