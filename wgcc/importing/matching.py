"""Matches the modules of a file with the modules of the model.

Names decide. If they do not, a module that is the only one of its form is matched by its shape,
and lists of layers that are only numbered are matched by their order. The rest is not guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from wgcc.importing.modules import Module
from wgcc.importing.names import STATISTICS, WEIGHT, numbered
from wgcc.importing.numbers import Numberings

NAME, SHAPE, ORDER = "name", "shape", "order"
# Two similarities that differ by less than this decide nothing.
_MARGIN = 0.05
# The meaning of words counts more than their spelling.
_SPELLING = 0.25
# A word that abbreviates another (`enc`, `encoder`) is nearly the same.
_ABBREVIATED, _SHORTEST = 0.75, 3

Pairs = dict[Module, tuple[Module, str]]
Likeness = dict[Module, dict[Module, float]]


class Matching:
    """`pairs`: for modules of the model, the file's module and by what it was found."""

    def __init__(self, ours: Sequence[Module], theirs: Sequence[Module]) -> None:
        self.pairs: Pairs = {}
        self._ours, self._theirs = ours, theirs
        self._numbers = Numberings(ours, theirs)
        self._likeness: Likeness = {}
        self._decided: set[Module] = set()

    def match(self, said: Mapping[Module, Module], order: Callable[[Module], int]) -> None:
        """`said` are the pairs of a user's rules; `order` gives the order of first use."""
        self._decided = {*said, *said.values()}
        self._by_equal_names(said)
        for module, other in said.items():
            self.pairs[module] = other, NAME
        self._likeness = {module: dict(self._alike(module)) for module in self._free_ours()}
        self._by_similar_names()
        self._by_shape()
        self._by_order(order)

    def rivals(self, module: Module) -> list[Module]:
        """The most likely of the file's modules that might be this one."""
        free = self._free_theirs()
        likely = {o: score for o, score in self._likeness[module].items() if o in free}
        if likely:
            best = max(likely.values())
            return [other for other in free if likely.get(other, 0) > best - _MARGIN]
        fitting = [other for other in free if fits(module, other) and not other.is_third]
        near = [other for other in fitting if other.numbers[:1] == module.numbers[:1]]
        return near or fitting

    def _by_equal_names(self, said: Mapping[Module, Module]) -> None:
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
        while found := list(_closest(self._free_likeness())):
            for module, other in found:
                self.pairs[module] = other, NAME if _related(module, other) else SHAPE

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

    def _by_order(self, order: Callable[[Module], int]) -> None:
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

    def _alike(self, module: Module) -> Iterator[tuple[Module, float]]:
        for other in self._numbers.candidates(module):
            score = likeness(module.letters, other.letters)
            if score > 0 and _has_all(module, other):
                yield other, score + _SPELLING * likeness(module.spelling, other.spelling)

    def _free_ours(self) -> list[Module]:
        return [module for module in self._ours if module not in self.pairs]

    def _free_theirs(self) -> list[Module]:
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


def _is_list(side: Sequence[Module]) -> bool:
    """Do their names differ by numbers only?"""
    names = {numbered(module.main.tensor) for module in side}
    return len(names) == 1 and len({module.numbers for module in side}) == len(side)


def _closest(rows: Likeness) -> Iterator[tuple[Module, Module]]:
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


def _related(a: Module, b: Module) -> bool:
    """Is the last word of one a word of the other?"""
    return any(
        bool(x) and any(x[-1] == word or _abbreviates(x[-1], word) for word in y)
        for x, y in ((a.letters, b.letters), (b.letters, a.letters))
    )


def fits(module: Module, other: Module) -> bool:
    """Could each tensor be the one of the same kind, its axes in some order?"""
    if module.is_norm_of_batches != other.is_norm_of_batches:
        return False
    return bool(other.like(module.main)) and all(
        any(part.sizes == found.sizes for found in others)
        for part in module.parts
        if (others := other.like(part))
    )


def _has_all(module: Module, other: Module) -> bool:
    """Does the model's module have a tensor for each of the other's, such as the bias?"""
    return fits(module, other) and all(module.like(part) for part in other.parts)


def _clear_winner(scores: Mapping[Module, float]) -> Module | None:
    best = sorted(scores, key=lambda module: -scores[module])[:2]
    if len(best) == 2 and scores[best[0]] - scores[best[1]] < _MARGIN:
        return None
    return best[0] if best else None
