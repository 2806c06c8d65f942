"""The order of an entry's groups, and the temporary memory it takes at its worst moment.

May a kernel store a value in place of one that it reads?

It may if only the thread that stores the new element reads the old one, and before that.

Take single results out of their kernels where running them later saves memory.

Fusing a value into the kernel that has its operands at hand saves a dispatch, but may keep both in
memory. Later, once nothing else reads an operand, the value can be stored over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import Coordinates, Index, coordinates_of, linear
from wgcc.ops.registry import Reduce, Special
from wgcc.passes.dataflow import is_update, lowering, operand_places
from wgcc.schedule.fuse.fuse import Fused
from wgcc.schedule.fuse.group import REPEAT, Group, own_space, product_position
from wgcc.schedule.fuse.merge import RowLoops


def may_store_in_place(fused: Fused, group: Group, old: str, new: Value) -> bool:
    """`new` is made by the group; `old` is the name of a value of equal size."""
    if group.kind == REPEAT:
        return False
    if old not in group.reads:
        return True
    node = fused.producers[new.name]
    if group.kind == "window_update":
        others = tuple(v for root in group.roots if root is not node for v in root.inputs)
        read = _names_read(fused, (*node.inputs[1:], *others))
        return node.inputs[0].name == old and old not in read
    if is_update(node):
        return True
    if group.kind == "matmul":
        return _in_epilogue(fused, group, old, new)
    return group.kind == "loop" and _at_same_element(fused, group, old, new)


def _at_same_element(fused: Fused, group: Group, old: str, new: Value) -> bool:
    space = group.space
    assert space is not None
    if space.reduces() and not _stored_last(RowLoops(group, fused.inlined), group, new):
        return False
    starts = [root.inputs[0] if own_space(root).reduces() else root.output for root in group.roots]
    pending = [(value, space.coordinates(value.shape)) for value in starts]
    here = linear(space.coordinates(new.shape), new.shape)
    return all(at == here for at in _positions_read(fused, group, old, pending))


def _stored_last(loops: RowLoops, group: Group, new: Value) -> bool:
    """No loop over the row comes later, and no lane of a workgroup can still need the old."""
    if loops.is_result(new):
        return all(loops.is_result(root.output) for root in group.roots)
    return loops.before(new) + 1 == loops.count


def _in_epilogue(fused: Fused, group: Group, old: str, new: Value) -> bool:
    """Neither operand of the product, nor a bias gradient fused with it, may need the old value."""
    product, *steps = [root for root in group.roots if not isinstance(lowering(root), Reduce)]
    if old in _names_read(fused, product.inputs):
        return False
    position = product_position(product.output)
    pending = [(s.output, coordinates_of(position, s.output.shape)) for s in steps]
    return all(at == position for at in _positions_read(fused, group, old, pending))


def _names_read(fused: Fused, values: tuple[Value, ...]) -> set[str]:
    """Names of some values and of all that is read to compute them where they are used."""
    pending, seen = list(values), set()
    while pending:
        value = pending.pop()
        if value.name not in seen:
            seen.add(value.name)
            node = fused.inlined.get(value.name)
            pending.extend(node.inputs if node else ())
    return seen


def _positions_read(
    fused: Fused, group: Group, old: str, pending: list[tuple[Value, Coordinates]]
) -> list[Index]:
    """The positions at which `old` is read to compute the pending elements."""
    own = {root.output.name: root for root in group.roots}
    positions: list[Index] = []
    seen = set()
    while pending:
        value, at = pending.pop()
        if (value.name, at) in seen:
            continue
        seen.add((value.name, at))
        if value.name == old:
            position = linear(at, value.shape)
            # A thread that stores a word of four elements reads those.
            packed = value.type.is_packed and value.type.size > 1
            is_source = value.name not in fused.producers
            positions.append(position // 4 if packed and is_source else position)
        node = fused.inlined.get(value.name) or own.get(value.name)
        if node is not None and _is_by_element(node):
            pending.extend(operand_places(node, at))
    return positions


def _is_by_element(node: Node) -> bool:
    """Reductions and products are looked at through operands of their own."""
    return not isinstance(lowering(node), Reduce | Special)


@dataclass(frozen=True, slots=True)
class TemporaryMemory:
    """The memory that running groups takes. `fixed`: values that have a place of their own."""

    fused: Fused
    fixed: frozenset[str]
    _answers: dict[tuple[frozenset[str], str, str], bool] = field(default_factory=dict)

    def temporaries(self, groups: Iterable[Group]) -> dict[str, Value]:
        """The values that one group makes, another reads and that have no place of their own."""
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
    """Counts the groups that each group still waits for, by positions in a list."""

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
        """The groups that can run once this one has run, and could not before."""
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


def best_order(groups: list[Group], memory: TemporaryMemory) -> tuple[list[Group], int]:
    """The better of two orders and its peak; `groups` are in an order that works."""
    best = min(footprints(groups, memory), key=lambda footprint: footprint.peak)
    return best.order, best.peak


def footprints(groups: list[Group], memory: TemporaryMemory) -> list[Footprint]:
    """The footprints of the two orders that are tried."""
    values = {n: v for n, v in memory.temporaries(groups).items() if v.type.size > 1}
    return [_footprint(o, values, memory) for o in (groups, _by_memory(groups, values))]


def _by_memory(groups: list[Group], values: Mapping[str, Value]) -> list[Group]:
    """An order that always runs the group that leaves least in memory; of equals, the first."""
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
    """Counts the words by which memory grows when a group runs: made, less those read last."""

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


def _footprint(
    order: list[Group], values: Mapping[str, Value], memory: TemporaryMemory
) -> Footprint:
    last = {name: i for i, group in enumerate(order) for name in group.reads}
    held, words = 0, []
    lives: dict[str, tuple[int, int]] = {}
    for i, group in enumerate(order):
        made = [values[name] for name in sorted(group.names & values.keys())]
        gone = [values[name] for name in sorted(group.reads & values.keys()) if last[name] == i]
        replaced = _words_replaced(made, gone, group, memory)
        lives |= {value.name: (i, last[value.name]) for value in made}
        words.append(held + sum(v.type.size for v in made) - replaced)
        held += sum(v.type.size for v in made) - sum(v.type.size for v in gone)
    return Footprint(order, words, lives)


def _words_replaced(
    made: list[Value], gone: list[Value], group: Group, memory: TemporaryMemory
) -> int:
    """How many words are stored over what is not needed any more."""
    free, words = list(gone), 0
    for new in made:
        old = next((old for old in free if memory.may_replace(group, new, old)), None)
        if old is not None:
            free.remove(old)
            words += new.type.size
    return words


# A dispatch costs tens of microseconds: what it saves must be worth it, in words and as a share.
MIN_SAVED_WORDS, MIN_SHARE = 16_384, 64
LATER = "runs later than it could, to save memory"
# How many are taken out at most.
MOST = 4


def unfuse(fused: Fused, fixed: frozenset[str]) -> Fused:
    """The groups with up to `MOST` results in kernels of their own."""
    memory, groups = TemporaryMemory(fused, fixed), fused.groups
    for _ in range(MOST):
        candidates = footprints(groups, memory)
        peak = min(footprint.peak for footprint in candidates)
        limit = peak - max(MIN_SAVED_WORDS, peak // MIN_SHARE)
        held = set().union(*(_held_throughout(footprint, limit) for footprint in candidates))
        trials = [
            _without(fused, groups, group, root)
            for group, root in _leaving(fused, groups, peak - limit)
            if root.output.name in held
        ]
        peaks = [best_order(trial, memory)[1] for trial in trials]
        if min(peaks, default=peak) > limit:
            break
        groups = trials[peaks.index(min(peaks))]
    return replace(fused, groups=groups)


def _leaving(fused: Fused, groups: list[Group], least: int) -> Iterator[tuple[Group, Node]]:
    """Results of at least this many words that no other result of their kernel needs."""
    for group in groups:
        if group.kind == "loop" and len(group.roots) > 1:
            for root in group.roots:
                if root.output.type.size >= least and _can_leave(fused, group, root):
                    yield group, root


def _can_leave(fused: Fused, group: Group, root: Node) -> bool:
    if isinstance(lowering(root), Reduce):
        return False
    others = (other for other in group.roots if other is not root)
    return all(root.output.name not in fused.touched(other) for other in others)


def _held_throughout(footprint: Footprint, limit: int) -> set[str]:
    """Names of values that are in memory whenever more than `limit` words are.

    Making one of them later may save these words.
    """
    high = [i for i, words in enumerate(footprint.words) if words > limit]
    return {
        name
        for name, (start, end) in footprint.lives.items()
        if start <= high[0] and high[-1] <= end
    }


def _without(fused: Fused, groups: list[Group], group: Group, root: Node) -> list[Group]:
    """The groups with one root of one of them in a group of its own."""
    rest = replace(group, roots=[r for r in group.roots if r is not root])
    alone = Group("loop", [], own_space(root), number=len(groups))
    alone.add(root, LATER)
    owner = {name: g.number for g in groups for name in g.names} | {root.output.name: alone.number}
    for part in (rest, alone):
        part.reads = {n for r in part.roots for n in fused.touched(r)} - part.names
    readers = {id(g): replace(g) for g in groups if root.output.name in g.reads}
    parts = [rest if g is group else readers.get(id(g), g) for g in groups] + [alone]
    for part in (rest, alone, *readers.values()):
        part.needs = {owner[name] for name in part.reads if name in owner}
    return run_order(parts)
