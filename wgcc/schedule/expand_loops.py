"""Replaces every loop among the groups of an entry by the groups of its body.

The groups of all levels become one list, so that temporaries share memory: in front of a body its
counter is set, and behind it advanced. Slices and stacks are parts of whole tensors, a carry has
one place under several names.

Stacks of a loop that are stored side by side, so that a kernel binds all of them as one.

A round of a loop stacks several values, and its gradient reads them again: with a binding for each,
the kernels of a round would need more than there are.

From when to when values are in memory, in entries with loops.

What a loop reads lives until its last round has ended; its carries and stacks live from before the
first. What a round makes for itself lives within the round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace

from wgcc.errors import Span
from wgcc.ir.graph import Graph, Node, TensorType, Value
from wgcc.ir.loops import LoopNode, Part, loop_of, rename
from wgcc.ir.places import MAX_BINDING, round_up
from wgcc.passes.dataflow import behind_views
from wgcc.passes.lay_out import Layout
from wgcc.schedule.fuse.fuse import Fused, fuse
from wgcc.schedule.fuse.group import REPEAT, Group
from wgcc.schedule.fuse.materialise import Reason
from wgcc.schedule.kernel import WORD, Place
from wgcc.schedule.memory.order import TemporaryMemory, best_order
from wgcc.schedule.memory.slots import LARGE, is_narrow
from wgcc.schedule.memory.write_plan import plan_writes

# Elements: a tensor of f16 has an even number of them.
EVEN = 2


@dataclass(slots=True)
class Packs:
    """`fixed` are stacks that have places already; `in_f16`: large ones are stored so."""

    fixed: Set[str] = frozenset()
    in_f16: bool = False
    members: dict[str, list[Value]] = field(default_factory=dict)
    _pack: dict[str, str] = field(default_factory=dict)
    f16_packs: set[str] = field(default_factory=set)

    def of(self, name: str) -> str | None:
        return self._pack.get(name)

    def add(self, loop: LoopNode, body: Graph, parts: Mapping[str, Part]) -> None:
        """Pack the stacks of a loop, floats of one size of element with each other."""
        for whole, value in zip(loop.stacks, body.outputs.values(), strict=True):
            is_free = whole.name not in self.fixed and whole.name not in parts
            if is_free and whole.dtype == "f32" and whole.type.size > 1:
                self._put(whole, loop, self.in_f16 and _is_half(whole, value, body))

    def places(self, pack: str, place: Place) -> dict[str, Place]:
        """The place of each stack of a pack that is at `place`."""
        places, at = {}, 0
        for whole in self.members[pack]:
            offset = place.offset + (at // EVEN if place.half else at)
            count = _count(whole)
            places[whole.name] = Place(place.buffer, offset, count, place.half, pack=place)
            at += count
        return places

    def value(self, pack: str) -> Value:
        """All stacks of a pack as one."""
        return Value(pack, TensorType((sum(map(_count, self.members[pack])),)))

    def _put(self, whole: Value, loop: LoopNode, is_half: bool) -> None:
        stem = f"{loop.index.name}.{'f16_stacks' if is_half else 'stacks'}"
        number = 0
        while not self._has_room(pack := f"{stem}{number or ''}", whole):
            number += 1
        self.members.setdefault(pack, []).append(whole)
        self._pack[whole.name] = pack
        if is_half:
            self.f16_packs.add(pack)

    def _has_room(self, pack: str, whole: Value) -> bool:
        """A kernel binds so much at once; a stack that is larger is alone."""
        held = sum(map(_count, self.members.get(pack, ())))
        return not held or (held + _count(whole)) * WORD <= MAX_BINDING


def _count(whole: Value) -> int:
    return round_up(whole.type.size, EVEN)


def _is_half(whole: Value, value: Value, body: Graph) -> bool:
    """Large stacks of what rounds compute are f16, not of what they carry."""
    makers = body.producers
    maker = makers.get(value.name)
    if maker is not None and maker.op == "copy":
        maker = makers.get(maker.inputs[0].name)
    return maker is not None and is_narrow(maker) and whole.type.size >= LARGE


COUNTER = "counter"
COUNTS = Reason(True, "kernels read from it which round it is")
STARTS, ADVANCES = "sets the counter of the loop", "advances the counter of the loop"


@dataclass(frozen=True, slots=True)
class LoopSpan:
    """The groups `first` to `last` (included) of an entry run once in each round of `loop`."""

    loop: LoopNode
    first: int
    last: int

    def holds(self, position: int) -> bool:
        return self.first <= position <= self.last


@dataclass(slots=True)
class Expanded:
    """The groups of an entry and of the bodies of its loops, in the order in which they run.

    `fused` says of all of them what is inlined. `same_place` maps the names that a carry has on
    its way (initial, in the body, its next value) to that of its final value. `counters` are the
    places of loop counters, `packs` the stacks that are bound together.
    """

    order: list[Group]
    fused: Fused
    graphs: list[Graph]
    loops: list[LoopSpan] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)
    same_place: dict[str, Value] = field(default_factory=dict)
    counters: dict[str, Place] = field(default_factory=dict)
    packs: Packs = field(default_factory=Packs)


def expand_loops(
    graph: Graph, fused: Fused, order: list[Group], layout: Layout, packs: Packs
) -> Expanded:
    """`order` are the groups of the entry itself."""
    expanded = Expanded([], fused, [graph], packs=packs)
    _Expander(expanded, layout).run(order, fused.bound.alone)
    expanded.loops.sort(key=lambda span: (span.first, -span.last))
    return expanded


class _Expander:
    def __init__(self, expanded: Expanded, layout: Layout) -> None:
        self.expanded, self.layout = expanded, layout

    def run(self, order: Iterable[Group], alone: Set[str]) -> None:
        for group in order:
            loop = loop_of(group.roots[0]) if group.kind == REPEAT else None
            if loop is None:
                self.expanded.order.append(group)
            else:
                self._loop(loop, alone)

    def _loop(self, loop: LoopNode, alone: Set[str]) -> None:
        body = _body_of(loop)
        self._note_names(loop, body)
        parts = {value.name for _, value in loop.sliced}
        parts |= {value.name for value in body.outputs.values()}
        self.expanded.packs.add(loop, body, self.expanded.parts)
        fused = fuse(body, alone=alone | parts, uniforms={loop.index.name}, packs=self._bound(body))
        write_plan = plan_writes(fused, dict(body.writes))
        for name, carry in write_plan.in_place.items():
            self.expanded.same_place[name] = self.expanded.same_place[carry]
        fixed = frozenset((*write_plan.in_place, *(v.name for v in body.results)))
        own = best_order(write_plan.order, TemporaryMemory(fused, fixed))[0]
        self._merge(body, fused)
        start, step = self._counter_groups(loop)
        self.expanded.order.append(start)
        first = len(self.expanded.order)
        self.run(own, fused.bound.alone)
        self.expanded.order.append(step)
        self.expanded.loops.append(LoopSpan(loop, first, len(self.expanded.order) - 1))

    def _bound(self, body: Graph) -> dict[str, str]:
        """Maps each part of a stack to what is bound for it, by name: a pack, or what it views."""
        bound = {}
        for value in (*body.inputs, *body.outputs.values()):
            whole = value
            while whole.name in self.expanded.parts:
                whole = self.expanded.parts[whole.name].whole
            whole = behind_views(whole, self.expanded.fused.inlined)
            bound[value.name] = self.expanded.packs.of(whole.name) or whole.name
        return bound

    def _note_names(self, loop: LoopNode, body: Graph) -> None:
        expanded = self.expanded
        for init, carry, final in zip(loop.inits, loop.carries, loop.finals, strict=True):
            expanded.same_place[init.name] = expanded.same_place[carry.name] = final
        for whole, value in loop.sliced:
            expanded.parts[value.name] = Part(whole, loop.index)
        for whole, value in zip(loop.stacks, body.outputs.values(), strict=True):
            expanded.parts[value.name] = Part(whole, loop.index)

    def _merge(self, body: Graph, fused: Fused) -> None:
        expanded = self.expanded
        expanded.graphs.append(body)
        expanded.fused = replace(
            expanded.fused,
            producers={**expanded.fused.producers, **fused.producers},
            inlined={**expanded.fused.inlined, **fused.inlined},
            reasons={**expanded.fused.reasons, **fused.reasons},
        )

    def _counter_groups(self, loop: LoopNode) -> tuple[Group, Group]:
        """The group that sets the counter to the first position, and the one that advances it."""
        buffer = f"{COUNTER}{len(self.expanded.counters)}"
        self.layout.buffers.reserve(buffer, COUNTER, 4)
        place, name = Place(buffer, 0, 4), loop.index.name
        self.expanded.counters[name] = replace(place, uniform=True)
        groups = []
        for suffix, number, why in (
            ("start", loop.positions[0], STARTS),
            ("next", -1 if loop.reverse else 1, ADVANCES),
        ):
            value = Value(f"{name}.{suffix}", TensorType((), "u32"))
            self.expanded.counters[value.name] = place
            self.expanded.fused.reasons[value.name] = COUNTS
            groups.append(_counter_group(value, {suffix: number}, why, loop.node.span))
        return groups[0], groups[1]


def _counter_group(value: Value, attrs: dict[str, int], why: str, span: Span | None) -> Group:
    group = Group(COUNTER, [])
    group.add(Node(COUNTER, (), (value,), attrs, span), why)
    return group


def _body_of(loop: LoopNode) -> Graph:
    """The body, with captured values under the names that they have outside.

    A carry that stays what it is is not written.
    """
    body = rename(loop.body, {inner.name: outer for outer, inner in loop.invariants})
    inputs = tuple({value.name: value for value in body.inputs}.values())
    writes = {name: value for name, value in body.writes.items() if value.name != name}
    return replace(body, inputs=inputs, writes=writes)


Made = dict[str, tuple[Value, int]]


class Accesses:
    """Who makes and who reads what is in memory, by positions in the order of groups."""

    def __init__(self, expanded: Expanded) -> None:
        self._expanded = expanded
        self._known: dict[str, frozenset[str]] = {}

    def first_writes(self) -> Made:
        """Values by name, each with the first group that writes it."""
        first_writes: Made = {}
        packs = self._expanded.packs
        for span in self._expanded.loops:
            for whole in span.loop.stacks:
                pack = packs.of(whole.name)
                value = packs.value(pack) if pack else whole
                first_writes[value.name] = (value, span.first - 1)
        for i, group in enumerate(self._expanded.order):
            for value in (value for root in group.roots for value in root.outputs):
                kept = self._expanded.same_place.get(value.name, value)
                first_writes.setdefault(kept.name, (kept, i))
        own = {
            name: first_writes[name] for name in first_writes if name not in self._expanded.parts
        }
        return dict(sorted(own.items(), key=lambda item: item[1][1]))

    def reads(self, made: Made) -> list[tuple[int, set[str]]]:
        """Pairs of a position and the names that are needed until then."""
        return [
            (self._end(position, made[name][1]), {name})
            for position, name in self._direct_reads()
            if name in made
        ]

    def _direct_reads(self) -> Iterator[tuple[int, str]]:
        for i, group in enumerate(self._expanded.order):
            for read in sorted(group.reads):
                yield from ((i, name) for name in sorted(self._in_memory(read)))
        for span in self._expanded.loops:
            for value in span.loop.node.outputs:
                yield from ((span.last, name) for name in sorted(self._in_memory(value.name)))

    def _end(self, position: int, start: int) -> int:
        """The end of the outermost loop that reads at `position` what was made before it."""
        spans = self._expanded.loops
        around = [s.last for s in spans if s.holds(position) and not s.holds(start)]
        return max(around, default=position)

    def _in_memory(self, name: str) -> frozenset[str]:
        """The tensors that hold a value: itself, or what it is part or a view of."""
        if name not in self._known:
            expanded = self._expanded
            kept = expanded.same_place[name].name if name in expanded.same_place else name
            if kept in expanded.parts:
                tensors = self._in_memory(expanded.parts[kept].whole.name)
            elif kept in expanded.fused.inlined:
                inputs = expanded.fused.inlined[kept].inputs
                tensors = frozenset().union(*(self._in_memory(value.name) for value in inputs))
            else:
                tensors = frozenset({expanded.packs.of(kept) or kept})
            self._known[name] = tensors
        return self._known[name]
