"""Settle where results go and in which order groups run.

A new content of a parameter or state is stored over the old one by the kernel that makes it,
wherever every reader of the old content can run before; otherwise it is copied there at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wgcc.ir.graph import Node, Value
from wgcc.schedule.arena import is_update
from wgcc.schedule.emit import Coordinates
from wgcc.schedule.flow import operand_places
from wgcc.schedule.fuse import Fused, Group, own_space


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
        if not blocked and _may_overwrite(fused, group, target, value):
            group.needs |= {reader.number for reader in readers}
            settled.over[value.name] = target
        elif is_update(fused.flow.producers[value.name]):
            settled.late.add(target)
        else:
            copy = _copy_group(fused, target, value, [group, *readers])
            settled.over[copy.roots[0].output.name] = target
    settled.order = _ordered(fused.groups)
    return settled


def _may_overwrite(fused: Fused, group: Group, target: str, value: Value) -> bool:
    """Does the group read the old content only where, and before, it stores the new?"""
    if target not in group.reads:
        return True
    node = fused.flow.producers[value.name]
    if group.kind == "window_update":
        return node.inputs[0].name == target
    if is_update(node):
        return True
    if group.kind != "loop" or group.space is None:
        return False
    if group.space.folds() and value.type.size != group.space.outer:
        return False
    here = group.space.coordinates(value.shape)
    return all(at == here for at in _reading_places(fused, group, target))


def _reading_places(fused: Fused, group: Group, target: str) -> list[Coordinates]:
    """The coordinates at which a loop group reads a source."""
    assert group.space is not None
    space, seen = group.space, set()
    found: list[Coordinates] = []
    own = {root.output.name: root for root in group.roots}
    pending: list[tuple[Value, Coordinates]] = []
    for root in group.roots:
        folds = own_space(root).folds()
        operand = root.inputs[0] if folds else root.output
        pending.append((operand, space.coordinates(operand.shape)))
    while pending:
        value, at = pending.pop()
        if (value.name, at) in seen:
            continue
        seen.add((value.name, at))
        if value.name == target:
            found.append(at)
        node = fused.inlined.get(value.name) or own.get(value.name)
        if node is not None and not own_space(node).folds():
            pending.extend(operand_places(node, at))
    return found


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


def _ordered(groups: list[Group]) -> list[Group]:
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
