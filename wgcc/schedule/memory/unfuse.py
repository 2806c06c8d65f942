"""Take single results out of their kernels where running them later saves memory.

Fusing a value into the kernel that has its operands at hand saves a dispatch, but may keep both in
memory. Later, once nothing else reads an operand, the value can be stored over it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wgcc.ir.graph import Node
from wgcc.ops.registry import Reduce
from wgcc.passes.dataflow import lowering
from wgcc.schedule.fuse.fuse import Fused
from wgcc.schedule.fuse.group import Group, own_space
from wgcc.schedule.memory.order import Footprint, Memory, best_order, footprints, run_order

# A dispatch costs tens of microseconds: what it saves must be worth it, in words and as a share.
MIN_SAVED_WORDS, MIN_SHARE = 16_384, 64
LATER = "runs later than it could, to save memory"
# How many are taken out at most.
MOST = 4


def unfuse(fused: Fused, fixed: frozenset[str]) -> Fused:
    """The groups with up to `MOST` results in kernels of their own; `fixed` as in `Memory`."""
    memory, groups = Memory(fused, fixed), fused.groups
    for _ in range(MOST):
        found = footprints(groups, memory)
        peak = min(footprint.peak for footprint in found)
        limit = peak - max(MIN_SAVED_WORDS, peak // MIN_SHARE)
        held = set().union(*(_held_throughout(footprint, limit) for footprint in found))
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
    """What is in memory whenever more than `limit` words are: making it later may save them."""
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
