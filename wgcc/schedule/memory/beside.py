"""Finds groups that do not need each other, so that one dispatch may start the kernels of two.

One of the two moves to where the other runs. What they read and make is in memory until both have
run, so that only small ones are taken; how many threads a workgroup will have is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from wgcc.ops.registry import Reduce
from wgcc.passes.dataflow import is_update, lowering
from wgcc.schedule.fuse.group import FLAT, REPEAT, Group
from wgcc.schedule.kernel import MAX_BINDINGS

# Elements of what a group touches: larger kernels are worth a dispatch.
MOST_ELEMENTS = 1 << 20
# How far behind a group its partner may be.
FARTHEST = 24
# Prefix of the kinds of groups whose threads work alone: their workgroups may have any size.
ALONE = "state_"
# Threads of most workgroups, and of those that sum so many rows; threads alone sum shorter ones.
LANES, MANY_LANES, MANY_ROWS, SHARED_ROW = 64, 256, 128, 32
Run = tuple[Group, ...]


def side_by_side(order: Sequence[Group], placed: Set[str]) -> tuple[Run, tuple[Run, ...]]:
    """An order in which groups that may run side by side follow each other, and these groups.

    `placed`: values that are stored whoever reads them.
    """
    values = _Values.of(order, placed)
    waiting: list[Run] = [(group,) for group in order]
    done: list[Run] = []
    while waiting:
        run = waiting.pop(0)
        partner = _partner(run[0], waiting, values) if len(run) == 1 else None
        if partner is None:
            done.append(run)
            continue
        number, is_delayed = partner
        pair = (*run, *waiting[number])
        waiting[number : number + 1] = [pair] if is_delayed else []
        done += [] if is_delayed else [pair]
    return tuple(group for run in done for group in run), tuple(r for r in done if len(r) > 1)


@dataclass(frozen=True, slots=True)
class _Values:
    """How many elements values have, and which of them are stored."""

    sizes: Mapping[str, int]
    stored: Set[str]

    @classmethod
    def of(cls, groups: Sequence[Group], placed: Set[str]) -> _Values:
        roots = (root for group in groups for root in group.roots)
        values = (value for root in roots for value in (*root.inputs, *root.outputs))
        read = set[str]().union(*(group.reads for group in groups))
        return cls({value.name: value.type.size for value in values}, read | placed)

    def are_small(self, group: Group) -> bool:
        sizes = (self.sizes.get(name, 0) for name in group.reads | group.names)
        return (
            group.kind not in (FLAT, REPEAT)
            and not is_update(group.roots[0])
            and max(sizes) <= MOST_ELEMENTS
        )

    def bindings(self, groups: Iterable[Group]) -> int:
        """Values of one element are bound together."""
        names = set[str]().union(*(group.reads | group.names & self.stored for group in groups))
        scalars = {name for name in names if self.sizes.get(name) == 1}
        return len(names - scalars) + bool(scalars)


def _partner(first: Group, behind: Sequence[Run], values: _Values) -> tuple[int, bool] | None:
    """The nearest run of one group that can be beside this one, and whether this one is delayed."""
    if not values.are_small(first):
        return None
    waiting, may_wait = {first.number}, True
    for number, run in enumerate(behind[:FARTHEST]):
        may_wait &= all(first.number not in group.needs for group in run)
        comes_forward = not run[0].needs & waiting
        is_free = len(run) == 1 and (comes_forward or may_wait)
        if is_free and _fit((first, run[0]), values):
            return number, not comes_forward
        waiting.update(group.number for group in run)
    return None


def _fit(groups: Run, values: _Values) -> bool:
    """Will kernels of both have workgroups of one size, and not too many bindings?"""
    sizes = {size for group in groups for size in _threads(group)}
    is_small = all(map(values.are_small, groups))
    return is_small and len(sizes) < 2 and values.bindings(groups) <= MAX_BINDINGS


def _threads(group: Group) -> Iterator[int]:
    """The threads of a workgroup, as well as can be told; none if they may be any number."""
    if group.kind.startswith(ALONE) or (group.kind == "loop" and not _is_shared(group)):
        return
    sums = [root for root in group.roots if isinstance(lowering(root), Reduce)]
    is_column = any(len(sum_.inputs[0].shape) - 1 not in sum_.attrs["axes"] for sum_ in sums)
    rows = max((sum_.inputs[0].type.size // sum_.output.type.size for sum_ in sums), default=0)
    yield MANY_LANES if group.kind == "loop" and is_column and rows >= MANY_ROWS else LANES


def _is_shared(group: Group) -> bool:
    return group.space is not None and group.space.reduces() and group.space.inner >= SHARED_ROW
