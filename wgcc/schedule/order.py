"""The order of an entry's groups, and the temporary memory it takes at its worst moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wgcc.ir.graph import Value
from wgcc.schedule.fuse import Fused, Group
from wgcc.schedule.overwrite import may_overwrite


@dataclass(frozen=True, slots=True)
class Memory:
    """What running groups costs. `fixed` are the values that have a place of their own."""

    fused: Fused
    fixed: frozenset[str]
    _answers: dict[tuple[frozenset[str], str, str], bool] = field(default_factory=dict)

    def temporaries(self, groups: Iterable[Group]) -> dict[str, Value]:
        """What is made by one group, read by another and lies nowhere else."""
        known = list(groups)
        wanted = set().union(*(group.reads for group in known)) - self.fixed
        made = (value for group in known for root in group.roots for value in root.outputs)
        return {value.name: value for value in made if value.name in wanted}

    def may_succeed(self, group: Group, new: Value, old: Value) -> bool:
        """May the group that makes `new` and is the last to read `old` store one over the other?"""
        if new.type.size != old.type.size or new.dtype != old.dtype:
            return False
        key = (frozenset(group.names), new.name, old.name)
        if key not in self._answers:
            self._answers[key] = may_overwrite(self.fused, group, old.name, new)
        return self._answers[key]


def run_order(groups: Iterable[Group]) -> list[Group]:
    """Groups in an order that respects `needs`, each as early as it was begun."""
    done: set[int] = set()
    order: list[Group] = []
    pending = list(groups)
    while pending:
        ready = next(g for g in pending if g.needs <= done)
        pending.remove(ready)
        done.add(ready.number)
        order.append(ready)
    return order


def best_order(groups: list[Group], memory: Memory) -> tuple[list[Group], int]:
    """The better of two orders and its peak; `groups` are in an order that works."""
    values = {n: v for n, v in memory.temporaries(groups).items() if v.type.size > 1}
    orders = (groups, _thrifty(groups, values))
    peaks = [_peak(order, values, memory) for order in orders]
    return orders[peaks.index(min(peaks))], min(peaks)


def _thrifty(groups: list[Group], values: Mapping[str, Value]) -> list[Group]:
    """Of what can run, always that which leaves least in memory; what was begun first wins ties."""
    readers = {name: sum(name in group.reads for group in groups) for name in values}
    done: set[int] = set()
    order: list[Group] = []
    pending = list(groups)

    def growth(group: Group) -> int:
        made = group.names & values.keys()
        freed = (name for name in group.reads & values.keys() if readers[name] == 1)
        return sum(values[n].type.size for n in made) - sum(values[n].type.size for n in freed)

    while pending:
        chosen = min((g for g in pending if g.needs <= done), key=growth)
        pending.remove(chosen)
        done.add(chosen.number)
        order.append(chosen)
        for name in chosen.reads & values.keys():
            readers[name] -= 1
    return order


def _peak(order: list[Group], values: Mapping[str, Value], memory: Memory) -> int:
    """The most words that live at the same time."""
    last = {name: i for i, group in enumerate(order) for name in group.reads}
    held = peak = 0
    for i, group in enumerate(order):
        made = [values[name] for name in sorted(group.names & values.keys())]
        gone = [values[name] for name in sorted(group.reads & values.keys()) if last[name] == i]
        replaced = _replaced(made, gone, group, memory)
        peak = max(peak, held + sum(v.type.size for v in made) - replaced)
        held += sum(v.type.size for v in made) - sum(v.type.size for v in gone)
    return peak


def _replaced(made: list[Value], gone: list[Value], group: Group, memory: Memory) -> int:
    """How many words are stored over what is not needed any more."""
    free, words = list(gone), 0
    for new in made:
        old = next((old for old in free if memory.may_succeed(group, new, old)), None)
        if old is not None:
            free.remove(old)
            words += new.type.size
    return words
