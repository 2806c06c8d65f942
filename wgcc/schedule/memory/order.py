"""The order of an entry's groups, and the temporary memory it takes at its worst moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from wgcc.ir.graph import Value
from wgcc.schedule.fuse.fuse import Fused
from wgcc.schedule.fuse.group import Group
from wgcc.schedule.memory.in_place import may_store_in_place


@dataclass(frozen=True, slots=True)
class Memory:
    """What running groups costs. `fixed` are the values that have a place of their own."""

    fused: Fused
    fixed: frozenset[str]
    _answers: dict[tuple[frozenset[str], str, str], bool] = field(default_factory=dict)

    def temporaries(self, groups: Iterable[Group]) -> dict[str, Value]:
        """What is made by one group, read by another and stored nowhere else."""
        known = list(groups)
        wanted = set().union(*(group.reads for group in known)) - self.fixed
        made = (value for group in known for root in group.roots for value in root.outputs)
        return {value.name: value for value in made if value.name in wanted}

    def may_replace(self, group: Group, new: Value, old: Value) -> bool:
        """May the group that makes `new` and is the last to read `old` store one over the other?"""
        if new.type.size != old.type.size or new.dtype != old.dtype:
            return False
        key = (frozenset(group.names), new.name, old.name)
        if key not in self._answers:
            self._answers[key] = may_store_in_place(self.fused, group, old.name, new)
        return self._answers[key]


def run_order(groups: Iterable[Group]) -> list[Group]:
    """Groups in an order that respects `needs`; of those that can run, the first in the list."""
    known = list(groups)
    waiting = _Waiting(known)
    ready = waiting.ready_at_once()
    order: list[Group] = []
    while ready:
        position = heappop(ready)
        order.append(known[position])
        for freed in waiting.after(position):
            heappush(ready, freed)
    assert len(order) == len(known), "groups need each other"
    return order


class _Waiting:
    """What each group still waits for. Groups are known by their positions in a list."""

    def __init__(self, groups: list[Group]) -> None:
        position = {group.number: i for i, group in enumerate(groups)}
        self._left = [len(group.needs) for group in groups]
        self._behind: list[list[int]] = [[] for _ in groups]
        for i, group in enumerate(groups):
            for number in group.needs:
                self._behind[position[number]].append(i)

    def ready_at_once(self) -> list[int]:
        return [i for i, left in enumerate(self._left) if not left]

    def after(self, position: int) -> Iterator[int]:
        """What can run when this group has run, and could not before."""
        for i in self._behind[position]:
            self._left[i] -= 1
            if not self._left[i]:
                yield i


@dataclass(frozen=True, slots=True)
class Footprint:
    """An order of groups and how many words are in memory while each of them runs.

    `lives` says from which to which group, by position, each temporary is in memory.
    """

    order: list[Group]
    words: list[int]
    lives: Mapping[str, tuple[int, int]]

    @property
    def peak(self) -> int:
        return max(self.words, default=0)


def best_order(groups: list[Group], memory: Memory) -> tuple[list[Group], int]:
    """The better of two orders and its peak; `groups` are in an order that works."""
    best = min(footprints(groups, memory), key=lambda found: found.peak)
    return best.order, best.peak


def footprints(groups: list[Group], memory: Memory) -> list[Footprint]:
    """Of the two orders that are tried."""
    values = {n: v for n, v in memory.temporaries(groups).items() if v.type.size > 1}
    return [_footprint(o, values, memory) for o in (groups, _by_memory(groups, values))]


def _by_memory(groups: list[Group], values: Mapping[str, Value]) -> list[Group]:
    """Of what can run, always that which leaves least in memory; of equals, the first."""
    growth = _Growth(groups, values)
    waiting = _Waiting(groups)
    can_run = set(waiting.ready_at_once())
    # A group whose growth has changed is in the queue once more.
    queue = [(growth.of[i], i) for i in sorted(can_run)]
    heapify(queue)
    order: list[Group] = []
    while queue:
        words, i = heappop(queue)
        if i not in can_run or words != growth.of[i]:
            continue
        can_run.remove(i)
        order.append(groups[i])
        changed = [*growth.run(i)]
        new = [*waiting.after(i)]
        can_run.update(new)
        for other in {*new, *changed} & can_run:
            heappush(queue, (growth.of[other], other))
    return order


class _Growth:
    """By how many words memory grows when a group runs: what it makes less what it reads last."""

    def __init__(self, groups: list[Group], values: Mapping[str, Value]) -> None:
        self._sizes = {name: value.type.size for name, value in values.items()}
        self._reads = [group.reads & values.keys() for group in groups]
        self._readers: dict[str, set[int]] = {name: set() for name in values}
        for i, names in enumerate(self._reads):
            for name in names:
                self._readers[name].add(i)
        self.of = [sum(self._sizes[n] for n in group.names & values.keys()) for group in groups]
        for name, readers in self._readers.items():
            if len(readers) == 1:
                self._becomes_last(name)

    def run(self, i: int) -> Iterator[int]:
        """Run a group; gives the groups whose growth changes."""
        for name in self._reads[i]:
            self._readers[name].remove(i)
            if len(self._readers[name]) == 1:
                yield self._becomes_last(name)

    def _becomes_last(self, name: str) -> int:
        (reader,) = self._readers[name]
        self.of[reader] -= self._sizes[name]
        return reader


def _footprint(order: list[Group], values: Mapping[str, Value], memory: Memory) -> Footprint:
    last = {name: i for i, group in enumerate(order) for name in group.reads}
    held, words = 0, []
    lives: dict[str, tuple[int, int]] = {}
    for i, group in enumerate(order):
        made = [values[name] for name in sorted(group.names & values.keys())]
        gone = [values[name] for name in sorted(group.reads & values.keys()) if last[name] == i]
        replaced = _replaced(made, gone, group, memory)
        lives |= {value.name: (i, last[value.name]) for value in made}
        words.append(held + sum(v.type.size for v in made) - replaced)
        held += sum(v.type.size for v in made) - sum(v.type.size for v in gone)
    return Footprint(order, words, lives)


def _replaced(made: list[Value], gone: list[Value], group: Group, memory: Memory) -> int:
    """How many words are stored over what is not needed any more."""
    free, words = list(gone), 0
    for new in made:
        old = next((old for old in free if memory.may_replace(group, new, old)), None)
        if old is not None:
            free.remove(old)
            words += new.type.size
    return words
