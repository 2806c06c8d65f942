"""Take single results out of their kernels where running them later saves memory.

Fusing a value into the kernel that has its operands at hand saves a dispatch, but may keep both in
memory. Later, once nothing else reads an operand, the value can be stored over it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wgcc.ir.graph import Node
from wgcc.ops.registry import Reduce
from wgcc.schedule.flow import lowering
from wgcc.schedule.fuse import Fused, Group, own_space
from wgcc.schedule.order import Memory, best_order, run_order

# A dispatch costs tens of microseconds: what it saves must be worth it, in words and as a share.
MIN_SAVED_WORDS, MIN_SHARE = 16_384, 64
# Each one is sought among all groups.
MOST = 4


def set_apart(fused: Fused, fixed: frozenset[str]) -> Fused:
    """The groups with up to `MOST` results in kernels of their own; `fixed` as in `Memory`."""
    memory = Memory(fused, fixed)
    groups, peak = fused.groups, best_order(fused.groups, memory)[1]
    for _ in range(MOST):
        trials = [(best_order(trial, memory)[1], trial) for trial in _trials(fused, groups)]
        least, trial = min(trials, key=lambda pair: pair[0], default=(peak, groups))
        if peak - least < max(MIN_SAVED_WORDS, peak // MIN_SHARE):
            break
        peak, groups = least, trial
    return replace(fused, groups=groups)


def _trials(fused: Fused, groups: list[Group]) -> Iterator[list[Group]]:
    for group in groups:
        if group.kind == "loop" and len(group.roots) > 1:
            for root in group.roots:
                if _can_leave(fused, group, root):
                    yield _without(fused, groups, group, root)


def _can_leave(fused: Fused, group: Group, root: Node) -> bool:
    if root.output.type.size < MIN_SAVED_WORDS or isinstance(lowering(root), Reduce):
        return False
    others = (other for other in group.roots if other is not root)
    return all(root.output.name not in fused.touched(other) for other in others)


def _without(fused: Fused, groups: list[Group], group: Group, root: Node) -> list[Group]:
    """The groups with one root of one of them in a group of its own."""
    rest = replace(group, roots=[r for r in group.roots if r is not root])
    alone = Group("loop", [root], own_space(root), number=len(groups))
    parts = [rest if g is group else replace(g) for g in groups] + [alone]
    owner = {name: g.number for g in parts for name in g.names}
    for part in parts:
        part.reads = {n for r in part.roots for n in fused.touched(r)} - part.names
        part.needs = {owner[name] for name in part.reads if name in owner}
    return run_order(parts)
