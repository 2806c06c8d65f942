"""Which groups must run before which, directly or through others."""

from __future__ import annotations

from collections.abc import Iterable


class Precedence:
    """Groups are numbers. What a group needs is kept as one number with a bit for each of them."""

    def __init__(self) -> None:
        self._before: dict[int, int] = {}
        self._direct: dict[int, set[int]] = {}

    def need(self, group: int, others: Iterable[int]) -> None:
        """Say that a group must run after some others, none of which needs it."""
        for other in others:
            self._direct.setdefault(other, set()).add(group)
            self._add(group, self.of((other,)))

    def of(self, groups: Iterable[int]) -> int:
        """These groups and all they need, as bits."""
        found = 0
        for group in groups:
            found |= self._before.get(group, 0) | 1 << group
        return found

    def needs(self, group: int, other: int) -> bool:
        """Must `other` run before `group`? A group counts as needing itself."""
        return bool(self.of((group,)) >> other & 1)

    def _add(self, group: int, bits: int) -> None:
        pending = [group]
        while pending:
            later = pending.pop()
            known = self._before.get(later, 0)
            if bits & ~known:
                self._before[later] = known | bits
                pending.extend(self._direct.get(later, ()))


__all__ = ["Precedence"]
