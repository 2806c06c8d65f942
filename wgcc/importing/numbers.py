"""Compares the numbers in names: `layers.3` is `blocks.3`, but nn.Sequential's 2 is not our 2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from wgcc.importing.modules import Module, Numbers
from wgcc.importing.names import NUMBER

Family = frozenset[Numbers]

# Ways to read numbers: 0 as they are; 1 counted from 0 if they start at 1; 2 and 3 the same without
# numbers that all modules of that name have, as in `rnn.weight_ih_l0`, if one side has fewer.
_READINGS = (0, 1, 2, 3)
_SHORTENED = (2, 3)


class Numbering:
    """The numbers of the modules of one side."""

    def __init__(self, side: Sequence[Module]) -> None:
        values: dict[tuple[str, ...], set[int]] = {}
        for module in side:
            for start, number in _starts(module):
                values.setdefault(start, set()).add(number)
        self._readings = {module: _readings(module, values) for module in side}
        families: dict[tuple[tuple[str, ...], int], set[Module]] = {}
        for module in side:
            families.setdefault(_family(module), set()).add(module)
        self._families: dict[tuple[tuple[str, ...], int], list[Family]] = {
            key: [frozenset(self.read(module, way) for module in members) for way in _READINGS]
            for key, members in families.items()
        }

    def read(self, module: Module, way: int) -> Numbers:
        return self._readings[module][way]

    def family(self, module: Module, way: int) -> Family:
        """The numbers of all modules that have this one's words and rank."""
        return self._families[_family(module)][way]


class Numberings:
    """Compares the numbers of two sides."""

    def __init__(self, ours: Sequence[Module], theirs: Sequence[Module]) -> None:
        self._ours, self._theirs = Numbering(ours), Numbering(theirs)
        self._places: dict[tuple[int, Numbers], list[Module]] = {}
        self._in_no_list = [other for other in theirs if not other.in_list]
        for other in theirs:
            for way in _READINGS:
                self._places.setdefault((way, self._theirs.read(other, way)), []).append(other)

    def same(self, module: Module, other: Module) -> bool:
        """Do the numbers say that a module of ours is one of theirs?"""
        one_has_fewer = len(module.numbers) != len(other.numbers)
        for way in _READINGS:
            if way in _SHORTENED and not one_has_fewer:
                continue
            families = self._ours.family(module, way), self._theirs.family(other, way)
            if _agree(*families, same_words=module.words == other.words):
                return self._ours.read(module, way) == self._theirs.read(other, way)
        return False

    def candidates(self, module: Module) -> Iterable[Module]:
        """All of theirs that the numbers allow; `fc` might be `fc1` or `fc2`."""
        found: dict[Module, None] = {}
        for way in _READINGS:
            found |= dict.fromkeys(self._places.get((way, self._ours.read(module, way)), ()))
        some = [other for other in found if self.same(module, other)]
        return dict.fromkeys([*some, *(() if module.numbers else self._in_no_list)])


def _readings(module: Module, values: dict[tuple[str, ...], set[int]]) -> tuple[Numbers, ...]:
    sets = [values[start] for start, _ in _starts(module)]
    counted = tuple(n - _from_one(found) for n, found in zip(module.numbers, sets, strict=True))
    varying = [at for at, found in enumerate(sets) if len(found) > 1]
    shortened = (tuple(numbers[at] for at in varying) for numbers in (module.numbers, counted))
    return module.numbers, counted, *shortened


def _from_one(values: set[int]) -> bool:
    return min(values) == 1 and max(values) == len(values)


def _family(module: Module) -> tuple[tuple[str, ...], int]:
    return module.words, len(module.main.sizes)


def _starts(module: Module) -> Iterator[tuple[tuple[str, ...], int]]:
    """Each number, with the words up to it."""
    places = (at for at, word in enumerate(module.words) if word == NUMBER)
    starts = (module.words[: at + 1] for at in places)
    return zip(starts, module.numbers, strict=True)


@lru_cache(maxsize=4096)
def _agree(ours: Family, theirs: Family, same_words: bool) -> bool:
    """Both lists of layers count in the same way; theirs may be longer.

    nn.Sequential also counts layers without weights: its 0, 2, 4 are our 0, 1, 2. Numbers that are
    part of a name (`fc0`, `fc2`) are compared as they are.
    """
    part_of_name = same_words and not _no_gaps(ours)
    return ours <= theirs and (ours == theirs or _no_gaps(theirs) or part_of_name)


def _no_gaps(family: Family) -> bool:
    """At each position, the numbers are consecutive from 0 or 1."""
    following: dict[Numbers, set[int]] = {}
    for numbers in family:
        for at, number in enumerate(numbers):
            following.setdefault(numbers[:at], set()).add(number)
    return all(min(n) <= 1 and max(n) - min(n) + 1 == len(n) for n in following.values())
