"""Plans where new contents of parameters and state are written, and in which order groups run.

A new content of a parameter or state is stored over the old one by the kernel that makes it,
wherever every reader of the old content can run before; otherwise it is copied there at the end.

Keep the content that an update replaces, for what is computed with it afterwards.

A training entry is split into two phases: up to its gradients, and what is done with them. Several
machines that train one model average their gradients in between. Nothing is computed or stored
differently for that: groups that use gradients run behind the last group that makes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.places import Place, span
from wgcc.passes.dataflow import adjacent, is_update, lists_of, overwrites_bytes, partners
from wgcc.passes.lay_out import holds_gradients
from wgcc.passes.rewrite import builder_for
from wgcc.schedule.fuse.fuse import Fused
from wgcc.schedule.fuse.group import Group, Precedence, own_space
from wgcc.schedule.fuse.materialise import Reason
from wgcc.schedule.memory.order import may_store_in_place, run_order


def keep_old(graph: Graph, names: set[str]) -> tuple[Graph, frozenset[str]]:
    """Let everything but what replaces them read copies of these parameters or states.

    Gives the names of the copies, too.
    """
    builder = builder_for(graph)
    sources = [value for value in graph.sources if value.name in names]
    old = {v.name: builder.apply("copy", v, name=f"{v.name}.old") for v in sources}

    windows = {id(n) for n in graph.nodes if any(overwrites_bytes(n, name) for name in names)}

    def reads(node: Node) -> tuple[Value, ...]:
        inputs = tuple(old.get(value.name, value) for value in node.inputs)
        return (node.inputs[0], *inputs[1:]) if id(node) in windows else inputs

    nodes = [n if is_update(n) else replace(n, inputs=reads(n)) for n in graph.nodes]
    copies = frozenset(value.name for value in old.values())
    return replace(graph, nodes=(*builder.nodes, *nodes)), copies


# A value that cannot be stored over the old content is copied there.
LAST = "runs when nothing reads the old content any more"
REPLACES = Reason(True, "it replaces a parameter or state")


@dataclass(slots=True)
class WritePlan:
    """`order` is how groups run; `in_place` maps values to the parameter or state they replace.

    `late` are the parameters and states that are needed after an update has replaced them.
    """

    order: list[Group]
    in_place: dict[str, str] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)


def plan_writes(fused: Fused, writes: dict[str, Value]) -> WritePlan:
    write_plan = WritePlan([])
    owner = {name: group for group in fused.groups for name in group.names}
    readers_of, precedence = _readers(fused.groups), _precedence(fused.groups)
    for target, value in writes.items():
        group = owner[value.name]
        readers = [g for g in readers_of.get(target, ()) if g is not group]
        blocked = any(precedence.needs(reader.number, group.number) for reader in readers)
        if not blocked and may_store_in_place(fused, group, target, value):
            group.needs |= {reader.number for reader in readers}
            precedence.need(group.number, [reader.number for reader in readers])
            write_plan.in_place[value.name] = target
        elif is_update(node := fused.producers[value.name]) or overwrites_bytes(node, target):
            write_plan.late.add(target)
        else:
            copy = _copy_group(fused, target, value, [group, *readers])
            write_plan.in_place[copy.roots[0].output.name] = target
    write_plan.order = run_order(fused.groups)
    return write_plan


def _copy_group(fused: Fused, target: str, value: Value, after: list[Group]) -> Group:
    copy = Node("copy", (value,), (Value(f"{target}.write", value.type),))
    group = Group("loop", [], own_space(copy), number=len(fused.groups))
    group.add(copy, LAST)
    fused.reasons[copy.output.name] = REPLACES
    group.needs = {g.number for g in after}
    group.reads = {value.name}
    fused.groups.append(group)
    return group


def _readers(groups: list[Group]) -> dict[str, list[Group]]:
    readers: dict[str, list[Group]] = {}
    for group in groups:
        for name in group.reads:
            readers.setdefault(name, []).append(group)
    return readers


def _precedence(groups: list[Group]) -> Precedence:
    precedence = Precedence()
    for group in groups:
        precedence.need(group.number, group.needs)
    return precedence


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
