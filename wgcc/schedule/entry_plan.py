"""The plan of one entry on its way through `steps.py`, and its text for `wgcc show --stage`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from wgcc.ir.graph import Graph, Value
from wgcc.ir.loops import Part
from wgcc.ir.places import Place
from wgcc.passes.lay_out import holds_gradients
from wgcc.schedule.expand_loops import Expanded, LoopSpan
from wgcc.schedule.fuse.fuse import Fused
from wgcc.schedule.fuse.group import FLAT, Group
from wgcc.schedule.kernel import GPU, EntrySchedule, Exchange
from wgcc.schedule.memory.slots import Life


@dataclass(frozen=True, slots=True)
class EntryPlan:
    """A step gives a new plan with some of these fields filled in.

    `order` has the groups in the order in which they run; with `expanded`, also those of loops.
    `in_place` maps values to the parameter or state whose content they replace, `late` are those
    that are needed after an update has replaced them, `old` the copies that keep such contents.
    `apart` are counters that share no kernel with gradients, `fallback` is the plan without that.
    `beside` are groups that do not need each other and run one after the other: kernels that one
    dispatch may start together.
    `again`: the steps that are repeated until they are stable must run once more.
    `after_gradients` are the groups from the first on that uses a gradient, or why gradients cannot
    be complete before. `parts` are values of one round that are stored in tensors of all rounds.
    `dispatches` are the kernels as written.
    """

    graph: Graph
    fused: Fused | None = None
    order: tuple[Group, ...] = ()
    in_place: Mapping[str, str] = field(default_factory=dict)
    late: frozenset[str] = frozenset()
    old: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()
    fallback: EntryPlan | None = None
    again: bool = False
    places: Mapping[str, Place] = field(default_factory=dict)
    after_gradients: tuple[Group, ...] | str = ()
    beside: tuple[tuple[Group, ...], ...] = ()
    expanded: Expanded | None = None
    parts: Mapping[str, Part] = field(default_factory=dict)
    exchange: Exchange | None = None
    lives: tuple[Life, ...] = ()
    dispatches: EntrySchedule | None = None

    @property
    def kernels(self) -> Fused:
        """The fused kernels of the entry and, once loops are expanded, of their bodies."""
        fused = self.expanded.fused if self.expanded else self.fused
        assert fused is not None, "the first step fuses"
        return fused

    @property
    def graphs(self) -> list[Graph]:
        """The entry's graph, and those of the bodies of its loops."""
        return self.expanded.graphs if self.expanded else [self.graph]

    @property
    def loops(self) -> list[LoopSpan]:
        return self.expanded.loops if self.expanded else []

    @property
    def outputs(self) -> dict[str, Place]:
        return {name: self.places[value.name] for name, value in self.graph.outputs.items()}

    def is_stored(self, value: Value) -> bool:
        return value.name in self.places


def entry_text(plan: EntryPlan) -> Iterator[str]:
    """The groups in order, each value with its place, why it is there and why it is stored."""
    until = {life.value.name: f", until kernel {life.end}" for life in plan.lives}
    for number, group in enumerate(plan.order or plan.kernels.groups):
        yield f"kernel {number} {group.kind}"
        for root in group.roots:
            why = group.why[root.outputs[0].name]
            for value in root.outputs:
                reason = plan.kernels.reasons[value.name].text
                where = _where(plan, value) + until.get(value.name, "")
                yield f"  %{value.name}: {where} ({why}; {reason})"
    if isinstance(plan.after_gradients, str):
        yield f"gradients are not complete before an update: {plan.after_gradients}"
    elif plan.after_gradients:
        first = plan.after_gradients[0].roots[0].outputs[0]
        yield f"gradients are complete before %{first.name} is made"
    for groups in plan.beside:
        names = (f"%{group.roots[0].outputs[0].name}" for group in groups)
        yield f"side by side: {', '.join(names)}"
    for target in sorted(plan.late):
        yield f"%{target} is needed after an update has replaced it"
    for name in sorted(plan.old):
        yield f"%{name} keeps what an update replaces"
    yield from _dispatch_text(plan)
    for span in plan.loops:
        yield f"kernels {span.first} to {span.last} run {span.loop.rounds} times"


@dataclass(frozen=True, slots=True)
class BesideSpans:
    """The first and the last position, in the order, of the groups beside each one."""

    ends: Mapping[int, tuple[int, int]]

    @classmethod
    def of(cls, plan: EntryPlan) -> BesideSpans:
        position = {id(group): i for i, group in enumerate(plan.order)}
        ends: dict[int, tuple[int, int]] = {}
        for groups in plan.beside:
            numbers = [position[id(group)] for group in groups]
            ends |= dict.fromkeys(numbers, (min(numbers), max(numbers)))
        return cls(ends)

    def first(self, number: int) -> int:
        return self.ends.get(number, (number, number))[0]

    def last(self, number: int) -> int:
        return self.ends.get(number, (number, number))[1]


def _dispatch_text(plan: EntryPlan) -> Iterator[str]:
    """The page that each kernel is made from, and its grid."""
    for number, dispatch in enumerate(plan.dispatches.dispatches if plan.dispatches else ()):
        launch = dispatch.launches[GPU]
        sizes = (launch.grid, launch.kernel.workgroup)
        grid, threads = (" × ".join(map(str, size)) for size in sizes)
        yield f"dispatch {number} {dispatch.label}: {launch.kernel.page}"
        yield f"  on {grid} workgroups of {threads} threads"


def _where(plan: EntryPlan, value: Value) -> str:
    """` at params[64:72]`: words 64 to 71 of a buffer."""
    if value.name in plan.in_place and value.name not in plan.places:
        return f"replaces {plan.in_place[value.name]}"
    place = plan.places.get(value.name)
    if place is None:
        return "no place"
    words = place.bytes // 4
    in_f16 = " as f16" if place.half else ""
    return f"{place.buffer}[{place.offset}:{place.offset + words}]{in_f16}"


def gradient_places(plan: EntryPlan) -> dict[int, list[Place]]:
    """The places of gradients that each dispatch writes; `flat` only reads a run of them."""
    gradients: dict[int, list[Place]] = {}
    spans = BesideSpans.of(plan)
    for i, value in _numbered_outputs(plan.order):
        place = plan.places.get(value.name)
        is_gradient = place is not None and holds_gradients(place.buffer)
        if place is not None and is_gradient and plan.order[i].kind != FLAT:
            gradients.setdefault(spans.first(i), []).append(place)
    return gradients


def _numbered_outputs(order: tuple[Group, ...]) -> Iterator[tuple[int, Value]]:
    for i, group in enumerate(order):
        for root in group.roots:
            for value in root.outputs:
                yield i, value
