"""Splits a training entry into two phases: up to its gradients, and what is done with them.

Several machines that train one model average their gradients in between. Nothing is computed or
stored differently for that: groups that use gradients run behind the last group that makes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.places import Place, span
from wgcc.passes.dataflow import adjacent, is_update, lists_of, partners
from wgcc.schedule.fuse.group import Group
from wgcc.schedule.layout import holds_gradients

NO_UPDATE = "no `minimize` updates its parameters"
BY_HAND = "`:=` updates the parameter `{}`, not `minimize`"
TWICE = "two updates of the parameter `{}` have gradients of their own"
IN_TURN = "gradients of one `minimize` depend on the update of another"


class NotSeparable(Exception):
    """The text says what prevents exchanging gradients before the updates."""


def gradients_of(graph: Graph, places: Mapping[str, Place]) -> dict[str, Place]:
    """The gradients that the optimizers read: their places in the arena, by name."""
    gradients = {}
    for value in _read_by_updates(graph):
        place = places[value.name]
        if holds_gradients(place.buffer):
            gradients[value.name] = place
    return gradients


def _read_by_updates(graph: Graph) -> Iterator[Value]:
    for node in graph.nodes:
        if is_update(node):
            yield from lists_of(node).get("g", ())
        elif node.op == "flat":
            yield from node.inputs


def check_separable(graph: Graph, gradients: Mapping[str, Place]) -> None:
    if graph.entry.inseparable:
        raise NotSeparable(graph.entry.inseparable)
    made = graph.producers
    if not gradients:
        raise NotSeparable(NO_UPDATE)
    for param in graph.params:
        new = graph.writes.get(param.name)
        if new is not None and not is_update(made[new.name]):
            raise NotSeparable(BY_HAND.format(param.name))
    owners, seen = partners(graph), set()
    for name, place in gradients.items():
        if place in seen:
            raise NotSeparable(TWICE.format(owners[name]))
        seen.add(place)


def separate(order: Sequence[Group], gradients: Iterable[str]) -> tuple[list[Group], int]:
    """An order in which the groups that use gradients run last, and the position of the first.

    The order given is kept wherever it can be.
    """
    names = frozenset(gradients)
    makers = [i for i, group in enumerate(order) if group.names & names]
    first = _with_producers(order, [order[i] for i in makers])
    if any(is_update(root) or root.op == "flat" for group in first for root in group.roots):
        raise NotSeparable(IN_TURN)
    end = makers[-1] + 1
    late = _late(order[:end], names, first)
    if late & first:
        raise NotSeparable(IN_TURN)
    before = [group for group in order[:end] if group not in late]
    behind = [group for group in order[:end] if group in late]
    return [*before, *behind, *order[end:]], len(before)


def counters_in_the_way(graph: Graph, order: Sequence[Group]) -> frozenset[str]:
    """Counters that could share no kernel with gradients, if these are to be separated.

    A new count replaces the old one, so that its kernel runs after the updates that use the old
    one. Where it makes a gradient, too, that would come after an update.
    """
    made = graph.producers
    read = {value.name for value in _read_by_updates(graph) if value.name in made}
    names = {name for name in read if not is_update(made[name])}
    if not names:
        return frozenset()
    try:
        separate(order, names)
    except NotSeparable:
        counts = {v.name for v in graph.writes.values() if v.type.size == 1 and v.name in made}
        return frozenset(counts - _ancestors(made, names))
    return frozenset()


def _ancestors(made: Mapping[str, Node], names: Iterable[str]) -> set[str]:
    ancestors, pending = set(), list(names)
    while pending:
        name = pending.pop()
        if name not in ancestors:
            ancestors.add(name)
            pending += [value.name for value in made[name].inputs if value.name in made]
    return ancestors


def _with_producers(order: Sequence[Group], makers: Iterable[Group]) -> set[Group]:
    """These groups and all whose results they use."""
    owner = {name: group for group in order for name in group.names}
    groups, pending = set(), list(makers)
    while pending:
        group = pending.pop()
        if group not in groups:
            groups.add(group)
            pending += [owner[name] for name in group.reads if name in owner]
    return groups


def _late(order: Sequence[Group], gradients: frozenset[str], first: set[Group]) -> set[Group]:
    """The groups that use gradients, and those that must run after one of them."""
    late: set[Group] = set()
    used: set[str] = set(gradients)
    numbers: set[int] = set()
    for group in order:
        uses = group.reads & used and group not in first
        if uses or group.needs & numbers:
            late.add(group)
            used |= group.names
            numbers.add(group.number)
    return late


def join_places(places: Iterable[Place]) -> tuple[Place, ...]:
    """Joins places that follow each other; the padding between gradients is zero."""
    runs = adjacent([(place, place) for place in set(places)])
    return tuple(span([place for place, _ in run]) for run in runs)
