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
from wgcc.schedule.precedence import Precedence


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
    owner = {name: group for group in fused.groups for name in group.names}
    readers_of, precedence = _readers(fused.groups), _precedence(fused.groups)
    for target, value in writes.items():
        group = owner[value.name]
        readers = [g for g in readers_of.get(target, ()) if g is not group]
        blocked = any(precedence.needs(reader.number, group.number) for reader in readers)
        if not blocked and may_overwrite(fused, group, target, value):
            group.needs |= {reader.number for reader in readers}
            precedence.need(group.number, [reader.number for reader in readers])
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


def _readers(groups: list[Group]) -> dict[str, list[Group]]:
    found: dict[str, list[Group]] = {}
    for group in groups:
        for name in group.reads:
            found.setdefault(name, []).append(group)
    return found


def _precedence(groups: list[Group]) -> Precedence:
    found = Precedence()
    for group in groups:
        found.need(group.number, group.needs)
    return found
