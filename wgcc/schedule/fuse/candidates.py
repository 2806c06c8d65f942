"""Finds groups that do not feed a node but may share a dispatch with it, without trying them all.

Sets of groups are numbers with a bit for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_

from wgcc.ir.iteration_space import Space, flat_space

_ONE_RESULT = flat_space(1)


class Candidates:
    """Candidates are groups of one result each, and groups that loop over the same elements."""

    def __init__(self) -> None:
        self._looping: dict[Space, int] = {}
        self._space: dict[int, Space] = {}
        self._reading: dict[str, int] = {}
        self._full = 0

    def put(self, group: int, space: Space, reads: Iterable[str], is_full: bool) -> None:
        """Add a group, or say how it has grown; `reads` are names that it did not read before."""
        bit, kind = 1 << group, _kind(space)
        if group in self._space:
            self._looping[self._space[group]] &= ~bit
        self._space[group] = kind
        self._looping[kind] = self._looping.get(kind, 0) | bit
        for name in reads:
            self._reading[name] = self._reading.get(name, 0) | bit
        self._full = self._full | bit if is_full else self._full & ~bit

    def groups(self, space: Space, sharing: Iterable[str] | None, with_full: bool) -> int:
        """Those that loop over a space and read one of `sharing`; None: whatever they read."""
        kind = _kind(space)
        found = self._looping.get(kind, 0)
        if sharing is not None and kind != _ONE_RESULT:
            found &= reduce(or_, (self._reading.get(name, 0) for name in sharing), 0)
        return found if with_full else found & ~self._full


def falling(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set, the highest first."""
    while bits:
        number = bits.bit_length() - 1
        yield number
        bits ^= 1 << number


def _kind(space: Space) -> Space:
    return _ONE_RESULT if space.outer == 1 else space


__all__ = ["Candidates", "falling"]
