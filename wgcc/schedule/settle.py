"""Settle where results go and in which order groups run.

A new content of a parameter or state is stored over the old one by the kernel that makes it,
wherever every reader of the old content can run before; otherwise it is copied there at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wgcc.ir.graph import Node, Value
from wgcc.schedule.arena import is_update
from wgcc.schedule.fuse import Fused, Group, own_space
from wgcc.schedule.order import run_order
from wgcc.schedule.overwrite import may_overwrite


@dataclass(slots=True)
class Settled:
    """`order` is how groups run; `over` maps value names to the parameter or state they replace.

    `late` are the parameters and states that are needed after an update has replaced them.
    """

    order: list[Group]
    over: dict[str, str] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)


def settle(fused: Fused, writes: dict[str, Value]) -> Settled:
    settled = Settled([])
    for target, value in writes.items():
        group = fused.owner(value.name)
        readers = [g for g in fused.groups if target in g.reads and g is not group]
        blocked = any(_needs(fused, reader, group) for reader in readers)
        if not blocked and may_overwrite(fused, group, target, value):
            group.needs |= {reader.number for reader in readers}
            settled.over[value.name] = target
        elif is_update(fused.flow.producers[value.name]):
            settled.late.add(target)
        else:
            copy = _copy_group(fused, target, value, [group, *readers])
            settled.over[copy.roots[0].output.name] = target
    settled.order = run_order(fused.groups)
    return settled


def _copy_group(fused: Fused, target: str, value: Value, after: list[Group]) -> Group:
    copy = Node("copy", (value,), (Value(f"{target}.write", value.type),))
    group = Group("loop", [copy], own_space(copy), number=len(fused.groups))
    group.needs = {g.number for g in after}
    group.reads = {value.name}
    fused.groups.append(group)
    return group


def _needs(fused: Fused, group: Group, other: Group) -> bool:
    """Must `other` run before `group`?"""
    numbered = {g.number: g for g in fused.groups}
    pending, seen = [group.number], set()
    while pending:
        number = pending.pop()
        if number == other.number:
            return True
        if number not in seen:
            seen.add(number)
            pending.extend(numbered[number].needs)
    return False
