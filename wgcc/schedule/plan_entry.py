"""Plan one entry: its groups in order, and a place for every value that is kept in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from wgcc.ir.graph import Constant, Graph, Value
from wgcc.ir.places import SCALARS, span
from wgcc.passes.updates import is_update, lists_of, partners, replaced_by
from wgcc.schedule.codegen.bindings import Part
from wgcc.schedule.exchange import (
    NotSeparable,
    check_separable,
    counters_in_the_way,
    gradients_of,
    joined,
    separate,
)
from wgcc.schedule.expand_loops import Expanded, LoopSpan, expand_loops
from wgcc.schedule.fuse.fuse import Fused, fuse
from wgcc.schedule.fuse.group import FLAT, REPEAT, Group
from wgcc.schedule.kernel import Exchange, Place
from wgcc.schedule.layout import CONSTANTS, Layout, holds_gradients
from wgcc.schedule.loop_lives import Accesses, Made
from wgcc.schedule.memory.halves import halves_of
from wgcc.schedule.memory.keep_old import keep_old
from wgcc.schedule.memory.order import Memory, best_order
from wgcc.schedule.memory.packs import Packs
from wgcc.schedule.memory.reuse import take_from_arenas
from wgcc.schedule.memory.slots import Life, Slots, io_places, lives_of, own_place
from wgcc.schedule.memory.unfuse import unfuse
from wgcc.schedule.memory.write_plan import WritePlan, plan_writes


@dataclass(slots=True)
class PlannedEntry:
    """`order` has the groups of the entry and of the bodies of its `loops`.

    `graphs` are the entry's graph and these bodies; `parts` are values of one round that are stored
    in tensors of all rounds. `exchange`: see `EntrySchedule`.
    """

    graph: Graph
    fused: Fused
    order: list[Group]
    places: dict[str, Place]
    outputs: dict[str, Place]
    lives: list[Life] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    loops: list[LoopSpan] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)
    exchange: Exchange | None = None

    def is_stored(self, value: Value) -> bool:
        return value.name in self.places


def plan_entry(
    graph: Graph, layout: Layout, slots: Slots, old: frozenset[str] = frozenset()
) -> PlannedEntry:
    """`old` are copies of what updates replace, which are made before."""
    fused, write_plan = _fused(graph, old)
    if write_plan.late:
        graph, copies = keep_old(graph, write_plan.late)
        return plan_entry(graph, layout, slots, old | copies)
    places = {v.name: layout.places[v.name] for v in (*graph.params, *graph.state)}
    places |= io_places(graph, layout)
    places |= _constant_places(graph, layout)
    places |= {name: layout.places[target] for name, target in write_plan.in_place.items()}
    places = _arena_places(graph, layout, places)
    planned = PlannedEntry(graph, fused, write_plan.order, places, {})
    for name, value in graph.outputs.items():
        if value.name not in places:
            key = layout.ports[graph.name].outputs[name]
            places[value.name] = own_place(key, "output", value, layout)
        planned.outputs[name] = places[value.name]
    if graph.range_guard:
        places[graph.range_guard.flag.name] = layout.buffers.append(SCALARS, "state", 1)
    _place_temporaries(planned, layout, slots)
    return planned


def _fused(graph: Graph, old: frozenset[str]) -> tuple[Fused, WritePlan]:
    """The kernels of an entry, and how they run. Gradients come first, if that is possible."""
    found = _fused_apart(graph, old, frozenset())
    if not graph.trains or found[1].late:
        return found
    counters = counters_in_the_way(graph, found[1].order)
    if not counters:
        return found
    other = _fused_apart(graph, old, counters)
    in_vain = other[1].late or counters_in_the_way(graph, other[1].order)
    return found if in_vain else other


def _fused_apart(
    graph: Graph, old: frozenset[str], apart: frozenset[str]
) -> tuple[Fused, WritePlan]:
    fused = unfuse(fuse(graph, before_updates=old, apart=apart), _fixed(graph))
    return fused, plan_writes(fused, dict(graph.writes))


def _constant_places(graph: Graph, layout: Layout) -> dict[str, Place]:
    """Constants of equal content share a place, whatever entry they belong to."""
    places = {}
    for constant in graph.constants:
        key = constant_key(constant)
        if key not in layout.places:
            layout.places[key] = layout.buffers.tensor(CONSTANTS, "constant", constant.value.type)
        places[constant.value.name] = layout.places[key]
    return places


def constant_key(constant: Constant) -> str:
    """Names its content; words and bytes are different, even where they are equal bits."""
    unit = "bytes" if constant.value.type.is_packed else "words"
    return f"{CONSTANTS}/{unit}/{constant.words.hex()}"


def _arena_places(graph: Graph, layout: Layout, places: dict[str, Place]) -> dict[str, Place]:
    """Gradients are stored in their arena, and what an update makes replaces the old content."""
    owners, found = partners(graph), dict(places)
    for node in graph.nodes:
        if is_update(node):
            for value in lists_of(node).get("g", ()):
                found.setdefault(value.name, layout.gradient(owners[value.name]))
            found |= {new: found[old.name] for new, old in replaced_by(node).items()}
        if node.op == "flat":
            for value in node.inputs:
                found.setdefault(value.name, layout.gradient(owners[value.name]))
            parts = [found[value.name] for value in node.inputs]
            found[node.output.name] = span(parts)
    return found


def _fixed(graph: Graph) -> frozenset[str]:
    """What has a place of its own: results, and what updates read and make."""
    found = {value.name for value in graph.results}
    for node in graph.nodes:
        if is_update(node):
            found.update(value.name for values in lists_of(node).values() for value in values)
            found |= replaced_by(node).keys()
        if node.op == "flat":
            found.update(value.name for value in (*node.inputs, *node.outputs))
    return frozenset(found)


def _place_temporaries(planned: PlannedEntry, layout: Layout, slots: Slots) -> None:
    """Values read by another group than their own are kept; scalars among the scalars."""
    before = Memory(planned.fused, frozenset(planned.places))
    order = best_order(planned.order, before)[0]
    order, behind = _halves_of(planned, order)
    packs = Packs(planned.places.keys(), slots.precision == "f16")
    expanded = _with_loops(planned, order, layout, packs)
    planned.exchange = _exchange(planned, behind)
    accesses = Accesses(expanded)
    made = accesses.made()
    reads = accesses.reads(made)
    read = set().union(*(names for _, names in reads)) - planned.places.keys()
    kept = {name: made[name] for name in made if name in read}
    for name, (value, _) in kept.items():
        if value.type.size == 1:
            planned.places[name] = layout.buffers.append(SCALARS, "state", 1)
    stored = {name: found for name, found in kept.items() if found[0].type.size > 1}
    halves = _halves(expanded, stored) if slots.precision == "f16" else set()
    planned.lives = lives_of(stored, reads, halves)
    memory = Memory(expanded.fused, before.fixed)
    inits = {final.name: init for s in expanded.loops for init, final in s.loop.carried}

    def succeeds(new: Life, old: Life) -> bool:
        if new.start != old.end or new.half != old.half or old.value.name in packs.members:
            return False
        value = inits.get(new.value.name, new.value)
        return memory.may_replace(planned.order[new.start], value, old.value)

    reuse = partial(take_from_arenas, _gradients(planned))
    planned.places |= slots.assign(planned.lives, succeeds, reuse)
    _place_names(planned, expanded)


def _halves_of(planned: PlannedEntry, order: list[Group]) -> tuple[list[Group], list[Group] | str]:
    """An order in which gradients are complete before one is used, and the groups from there on.

    If there is none, the order as it is, and why.
    """
    gradients = gradients_of(planned.graph, planned.places)
    try:
        check_separable(planned.graph, gradients)
        order, at = separate(order, gradients)
    except NotSeparable as reason:
        return order, str(reason)
    return order, order[at:]


def _exchange(planned: PlannedEntry, behind: list[Group] | str) -> Exchange | None:
    if not planned.graph.trains:
        return None
    if isinstance(behind, str):
        return Exchange(why=behind)
    first = _position(planned, behind[0])
    dispatch = sum(group.kind != FLAT for group in planned.order[:first])
    gradients = gradients_of(planned.graph, planned.places)
    return Exchange(dispatch, joined(gradients.values()))


def _position(planned: PlannedEntry, group: Group) -> int:
    """Of a group, or of what sets the counter of a loop, among the groups with loops."""
    if group.kind != REPEAT:
        return planned.order.index(group)
    return next(x.first for x in planned.loops if x.loop.node is group.roots[0]) - 1


def _with_loops(
    planned: PlannedEntry, order: list[Group], layout: Layout, packs: Packs
) -> Expanded:
    """Puts the groups of loops among those of the entry."""
    expanded = expand_loops(planned.graph, planned.fused, order, layout, packs)
    planned.order, planned.fused = expanded.order, expanded.fused
    planned.graphs, planned.loops = expanded.graphs, expanded.loops
    planned.parts = expanded.parts
    planned.places |= expanded.counters
    for body in expanded.graphs[1:]:
        planned.places |= _constant_places(body, layout)
    return expanded


def _place_names(planned: PlannedEntry, expanded: Expanded) -> None:
    """All names of a carry have its place, parts have that of the whole."""
    places, parts = planned.places, planned.parts
    for pack in expanded.packs.members:
        places |= expanded.packs.places(pack, places[pack])
    for name, final in expanded.same_place.items():
        if final.name in parts:
            parts[name] = parts[final.name]
        else:
            places[name] = places[final.name]
    for name, part in parts.items():
        whole = part.whole
        while whole.name in parts:
            whole = parts[whole.name].whole
        if whole.name in places:
            places[name] = places[whole.name]


def _halves(expanded: Expanded, stored: Made) -> set[str]:
    found = set(expanded.packs.half_packs)
    return found.union(*(halves_of(graph, stored) for graph in expanded.graphs))


def _gradients(planned: PlannedEntry) -> dict[int, list[Place]]:
    """What each dispatch writes into the arena of gradients; `flat` only reads a run of them."""
    found: dict[int, list[Place]] = {}
    for i, value in _made(planned.order):
        place = planned.places.get(value.name)
        is_gradient = place is not None and holds_gradients(place.buffer)
        if place is not None and is_gradient and planned.order[i].kind != FLAT:
            found.setdefault(i, []).append(place)
    return found


def _made(order: list[Group]) -> Iterator[tuple[int, Value]]:
    for i, group in enumerate(order):
        for root in group.roots:
            for value in root.outputs:
                yield i, value
