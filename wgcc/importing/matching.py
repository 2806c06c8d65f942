"""Matches the modules of a file with the modules of the model.

Names decide. If they do not, a module that is the only one of its form is matched by its shape,
and lists of layers that are only numbered are matched by their order. The rest is not guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from wgcc.importing.names import NUMBER, STATISTICS, WEIGHT, ModuleTensors, Numbers, without_numbers

NAME, SHAPE, ORDER = "name", "shape", "order"
# Two similarities that differ by less than this decide nothing.
_MARGIN = 0.05
# The meaning of words counts more than their spelling.
_SPELLING = 0.25
# A word that abbreviates another (`enc`, `encoder`) is nearly the same.
_ABBREVIATED, _SHORTEST = 0.75, 3

Pairs = dict[ModuleTensors, tuple[ModuleTensors, str]]
Likeness = dict[ModuleTensors, dict[ModuleTensors, float]]


class Matching:
    """`pairs`: for modules of the model, the file's module and by what it was found."""

    def __init__(self, ours: Sequence[ModuleTensors], theirs: Sequence[ModuleTensors]) -> None:
        self.pairs: Pairs = {}
        self._ours, self._theirs = ours, theirs
        self._numbers = Numberings(ours, theirs)
        self._likeness: Likeness = {}
        self._decided: set[ModuleTensors] = set()

    def match(
        self, said: Mapping[ModuleTensors, ModuleTensors], order: Callable[[ModuleTensors], int]
    ) -> None:
        """`said` are the pairs of a user's rules; `order` gives the order of first use."""
        self._decided = {*said, *said.values()}
        self._by_equal_names(said)
        for module, other in said.items():
            self.pairs[module] = other, NAME
        self._likeness = {module: dict(self._alike(module)) for module in self._free_ours()}
        self._by_similar_names()
        self._by_shape()
        self._by_order(order)

    def rivals(self, module: ModuleTensors) -> list[ModuleTensors]:
        """The most likely of the file's modules that might be this one."""
        free = self._free_theirs()
        likely = {o: score for o, score in self._likeness[module].items() if o in free}
        if likely:
            best = max(likely.values())
            return [other for other in free if likely.get(other, 0) > best - _MARGIN]
        fitting = [other for other in free if fits(module, other) and not other.is_third]
        near = [other for other in fitting if other.numbers[:1] == module.numbers[:1]]
        return near or fitting

    def _by_equal_names(self, said: Mapping[ModuleTensors, ModuleTensors]) -> None:
        """Regardless of shapes: if those do not fit, no other tensor is used instead."""
        equal = {
            module: {
                other: likeness(module.spelling, other.spelling)
                for other in self._numbers.candidates(module)
                if module.letters == other.letters
            }
            for module in self._ours
            if module not in said
        }
        for module, other in _closest(equal):
            self.pairs[module] = other, NAME

    def _by_similar_names(self) -> None:
        """Repeatedly takes the pairs that are more similar to each other than to any others."""
        while new_pairs := list(_closest(self._free_likeness())):
            for module, other in new_pairs:
                self.pairs[module] = other, NAME if _relation(module, other) else SHAPE

    def _free_likeness(self) -> Likeness:
        free = set(self._free_theirs())
        return {
            module: {o: score for o, score in self._likeness[module].items() if o in free}
            for module in self._free_ours()
        }

    def _by_shape(self) -> None:
        """The only module of its form in model and file, or among those that are in no list.

        State is never matched this way.
        """
        for everywhere in (True, False):
            sides = [
                [m for m in side if m not in self._decided and (everywhere or not m.in_list)]
                for side in (self._ours, [m for m in self._theirs if not m.is_third])
            ]
            counts = [Counter(m.form for m in side) for side in sides]
            by_form = {other.form: other for other in sides[1]}
            free = set(self._free_theirs())
            for module in [m for m in self._free_ours() if m.main.kind not in STATISTICS]:
                if [count[module.form] for count in counts] == [1, 1] and module in sides[0]:
                    other = by_form[module.form]
                    if other in free and _has_all(module, other):
                        self.pairs[module] = other, SHAPE

    def _by_order(self, order: Callable[[ModuleTensors], int]) -> None:
        """Modules of one form whose names differ only by numbers, as in nn.Sequential."""
        free = [m for m in self._free_theirs() if not m.is_third]
        for form in dict.fromkeys(m.form for m in self._free_ours() if m.main.kind == WEIGHT):
            mine = sorted((m for m in self._free_ours() if m.form == form), key=order)
            others = sorted((m for m in free if m.form == form), key=lambda m: m.numbers)
            pairs = list(zip(mine, others, strict=False))
            # A single remaining module must share at least a word with ours.
            related = len(pairs) > 1 or all(likeness(a.letters, b.letters) > 0 for a, b in pairs)
            fitting = all(_has_all(module, other) for module, other in pairs)
            if len(mine) == len(others) and _is_list(others) and related and fitting:
                self.pairs |= {module: (other, ORDER) for module, other in pairs}

    def _alike(self, module: ModuleTensors) -> Iterator[tuple[ModuleTensors, float]]:
        for other in self._numbers.candidates(module):
            score = likeness(module.letters, other.letters)
            if score > 0 and _has_all(module, other):
                yield other, score + _SPELLING * likeness(module.spelling, other.spelling)

    def _free_ours(self) -> list[ModuleTensors]:
        return [module for module in self._ours if module not in self.pairs]

    def _free_theirs(self) -> list[ModuleTensors]:
        """A tensor is used once: as a whole, or each third of it."""
        taken = {other for other, _ in self.pairs.values()}
        whole = {part.tensor for other in taken if not other.is_third for part in other.parts}
        cut = {part.tensor for other in taken if other.is_third for part in other.parts}
        return [
            other
            for other in self._theirs
            if other not in taken
            and not any(p.tensor in (whole if other.is_third else cut) for p in other.parts)
        ]


def _is_list(side: Sequence[ModuleTensors]) -> bool:
    """Do their names differ by numbers only?"""
    names = {without_numbers(module.main.tensor) for module in side}
    return len(names) == 1 and len({module.numbers for module in side}) == len(side)


def _closest(rows: Likeness) -> Iterator[tuple[ModuleTensors, ModuleTensors]]:
    """Pairs that are more similar to each other than to any others."""
    columns: Likeness = {}
    for module, row in rows.items():
        for other, score in row.items():
            columns.setdefault(other, {})[module] = score
    for module, row in rows.items():
        winner = _clear_winner(row)
        if winner is not None and _clear_winner(columns[winner]) is module:
            yield module, winner


def likeness(ours: Sequence[str], theirs: Sequence[str]) -> float:
    """0 … 1: the fraction of words that two names share."""
    left, shared = list(theirs), 0.0
    for word in ours:
        if word in left:
            left.remove(word)
            shared += 1
    rest = [word for word in ours if word not in theirs]
    shared += sum(_ABBREVIATED for word in rest if any(_abbreviates(word, w) for w in left))
    return 2 * shared / max(len(ours) + len(theirs), 1)


def _abbreviates(a: str, b: str) -> bool:
    short, long = sorted((a, b), key=len)
    return len(short) >= _SHORTEST and long.startswith(short)


def _relation(a: ModuleTensors, b: ModuleTensors) -> bool:
    """Is the last word of one a word of the other?"""
    return any(
        bool(x) and any(x[-1] == word or _abbreviates(x[-1], word) for word in y)
        for x, y in ((a.letters, b.letters), (b.letters, a.letters))
    )


def fits(module: ModuleTensors, other: ModuleTensors) -> bool:
    """Could each tensor be the one of the same kind, its axes in some order?"""
    if module.is_norm_of_batches != other.is_norm_of_batches:
        return False
    return bool(other.like(module.main)) and all(
        any(part.sizes == candidate.sizes for candidate in others)
        for part in module.parts
        if (others := other.like(part))
    )


def _has_all(module: ModuleTensors, other: ModuleTensors) -> bool:
    """Does the model's module have a tensor for each of the other's, such as the bias?"""
    return fits(module, other) and all(module.like(part) for part in other.parts)


def _clear_winner(scores: Mapping[ModuleTensors, float]) -> ModuleTensors | None:
    best = sorted(scores, key=lambda module: -scores[module])[:2]
    if len(best) == 2 and scores[best[0]] - scores[best[1]] < _MARGIN:
        return None
    return best[0] if best else None


Family = frozenset[Numbers]

# Ways to read numbers: 0 as they are; 1 counted from 0 if they start at 1; 2 and 3 the same without
# numbers that all modules of that name have, as in `rnn.weight_ih_l0`, if one side has fewer.
_READINGS = (0, 1, 2, 3)
_SHORTENED = (2, 3)


class Numbering:
    """The numbers of the modules of one side."""

    def __init__(self, side: Sequence[ModuleTensors]) -> None:
        values: dict[tuple[str, ...], set[int]] = {}
        for module in side:
            for start, number in _starts(module):
                values.setdefault(start, set()).add(number)
        self._readings = {module: _readings(module, values) for module in side}
        families: dict[tuple[tuple[str, ...], int], set[ModuleTensors]] = {}
        for module in side:
            families.setdefault(_family(module), set()).add(module)
        self._families: dict[tuple[tuple[str, ...], int], list[Family]] = {
            key: [frozenset(self.read(module, way) for module in members) for way in _READINGS]
            for key, members in families.items()
        }

    def read(self, module: ModuleTensors, way: int) -> Numbers:
        return self._readings[module][way]

    def family(self, module: ModuleTensors, way: int) -> Family:
        """The numbers of all modules that have this one's words and rank."""
        return self._families[_family(module)][way]


class Numberings:
    """Compares the numbers of two sides."""

    def __init__(self, ours: Sequence[ModuleTensors], theirs: Sequence[ModuleTensors]) -> None:
        self._ours, self._theirs = Numbering(ours), Numbering(theirs)
        self._places: dict[tuple[int, Numbers], list[ModuleTensors]] = {}
        self._in_no_list = [other for other in theirs if not other.in_list]
        for other in theirs:
            for way in _READINGS:
                self._places.setdefault((way, self._theirs.read(other, way)), []).append(other)

    def same(self, module: ModuleTensors, other: ModuleTensors) -> bool:
        """Do the numbers say that a module of ours is one of theirs?"""
        one_has_fewer = len(module.numbers) != len(other.numbers)
        for way in _READINGS:
            if way in _SHORTENED and not one_has_fewer:
                continue
            families = self._ours.family(module, way), self._theirs.family(other, way)
            if _agree(*families, same_words=module.words == other.words):
                return self._ours.read(module, way) == self._theirs.read(other, way)
        return False

    def candidates(self, module: ModuleTensors) -> Iterable[ModuleTensors]:
        """All of theirs that the numbers allow; `fc` might be `fc1` or `fc2`."""
        others: dict[ModuleTensors, None] = {}
        for way in _READINGS:
            others |= dict.fromkeys(self._places.get((way, self._ours.read(module, way)), ()))
        some = [other for other in others if self.same(module, other)]
        return dict.fromkeys([*some, *(() if module.numbers else self._in_no_list)])


def _readings(
    module: ModuleTensors, values: dict[tuple[str, ...], set[int]]
) -> tuple[Numbers, ...]:
    sets = [values[start] for start, _ in _starts(module)]
    counted = tuple(
        n - _from_one(seen_numbers) for n, seen_numbers in zip(module.numbers, sets, strict=True)
    )
    varying = [at for at, seen_numbers in enumerate(sets) if len(seen_numbers) > 1]
    shortened = (tuple(numbers[at] for at in varying) for numbers in (module.numbers, counted))
    return module.numbers, counted, *shortened


def _from_one(values: set[int]) -> bool:
    return min(values) == 1 and max(values) == len(values)


def _family(module: ModuleTensors) -> tuple[tuple[str, ...], int]:
    return module.words, len(module.main.sizes)


def _starts(module: ModuleTensors) -> Iterator[tuple[tuple[str, ...], int]]:
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
