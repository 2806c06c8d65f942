"""Plan one entry: its groups in order, and a place for every value that is kept in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from wgcc.ir.graph import Graph, Value
from wgcc.schedule.codegen.bindings import SCALARS
from wgcc.schedule.fuse.fuse import Fused, fuse
from wgcc.schedule.fuse.group import Group
from wgcc.schedule.kernel import Place
from wgcc.schedule.layout import CONSTANTS, GRADS, Layout
from wgcc.schedule.memory.halves import halves_of
from wgcc.schedule.memory.keep_old import keep_old
from wgcc.schedule.memory.order import Memory, best_order
from wgcc.schedule.memory.reuse import Arena, free_spans
from wgcc.schedule.memory.slots import Life, Slots, io_places, lives_of, own_place
from wgcc.schedule.memory.unfuse import unfuse
from wgcc.schedule.memory.write_plan import plan_writes
from wgcc.schedule.updates import is_update, lists_of, partners, replaced_by, span


@dataclass(slots=True)
class PlannedEntry:
    graph: Graph
    fused: Fused
    order: list[Group]
    places: dict[str, Place]
    outputs: dict[str, Place]
    lives: list[Life] = field(default_factory=list)

    def is_stored(self, value: Value) -> bool:
        return value.name in self.places


def plan_entry(
    graph: Graph, layout: Layout, slots: Slots, old: frozenset[str] = frozenset()
) -> PlannedEntry:
    """`old` are copies of what updates replace, which are made before."""
    fused = unfuse(fuse(graph, before_updates=old), _fixed(graph))
    write_plan = plan_writes(fused, dict(graph.writes))
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
        places[graph.range_guard.flag.name] = layout.append(SCALARS, "state", 1)
    _place_temporaries(planned, layout, slots)
    return planned


def _constant_places(graph: Graph, layout: Layout) -> dict[str, Place]:
    """Constants of equal content share a place, whatever entry they belong to."""
    places = {}
    for constant in graph.constants:
        key = f"{CONSTANTS}/{constant.words.hex()}"
        if key not in layout.places:
            size = constant.value.type.size
            layout.places[key] = layout.append(CONSTANTS, "constant", size)
        places[constant.value.name] = layout.places[key]
    return places


def _arena_places(graph: Graph, layout: Layout, places: dict[str, Place]) -> dict[str, Place]:
    """Gradients are stored in their arena, and what an update makes replaces the old content."""
    owners, found = partners(graph.nodes), dict(places)
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
    memory = Memory(planned.fused, frozenset(planned.places))
    planned.order = best_order(planned.order, memory)[0]
    kept = memory.temporaries(planned.order)
    for value in kept.values():
        if value.type.size == 1:
            planned.places[value.name] = layout.append(SCALARS, "state", 1)
    made = {value.name: (value, i) for i, value in _made(planned.order)}
    stored = {name: made[name] for name, value in kept.items() if value.type.size > 1}
    reads = [(i, group.reads) for i, group in enumerate(planned.order)]
    halves = halves_of(planned.graph, stored) if slots.precision == "f16" else set()
    planned.lives = lives_of(stored, reads, halves)

    def succeeds(new: Life, old: Life) -> bool:
        if new.start != old.end or new.half != old.half:
            return False
        return memory.may_replace(planned.order[new.start], new.value, old.value)

    free = free_spans(_gradients(planned))

    def reuse(lives: list[Life]) -> dict[str, Place]:
        return Arena(free).take(lives)

    planned.places |= slots.assign(planned.lives, succeeds, reuse)


def _gradients(planned: PlannedEntry) -> dict[int, list[Place]]:
    """What each dispatch writes into the arena of gradients; `flat` only reads a run of them."""
    found: dict[int, list[Place]] = {}
    for i, value in _made(planned.order):
        place = planned.places.get(value.name)
        if place is not None and place.buffer == GRADS and planned.order[i].kind != "flat":
            found.setdefault(i, []).append(place)
    return found


def _made(order: list[Group]) -> Iterator[tuple[int, Value]]:
    for i, group in enumerate(order):
        for root in group.roots:
            for value in root.outputs:
                yield i, value
