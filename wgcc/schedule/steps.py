"""The steps from the graph of an entry to its kernels in order, with a place for every value.

`STEPS` is the list, read from top to bottom. Each step takes an `EntryPlan` and gives the next.
Entries share memory, so a step that reserves some also gets what they share. Kernels are written
when all entries have their places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from wgcc.ir.dtypes import F16
from wgcc.ir.graph import Graph
from wgcc.ir.places import SCALARS
from wgcc.ir.program import Program
from wgcc.passes.dataflow import is_update, lists_of, replaced_by
from wgcc.passes.lay_out import Layout, arena_places, constant_places
from wgcc.schedule.entry_plan import BesideSpans, EntryPlan, entry_text, gradient_places
from wgcc.schedule.expand_loops import Accesses, Expanded, Made, Packs, expand_loops
from wgcc.schedule.fuse.fuse import fuse
from wgcc.schedule.fuse.group import REPEAT, Group
from wgcc.schedule.kernel import Exchange
from wgcc.schedule.memory.order import TemporaryMemory, best_order, unfuse
from wgcc.schedule.memory.slots import (
    Life,
    Slots,
    io_places,
    lives_of,
    own_place,
    take_from_arenas,
    values_in_f16,
)
from wgcc.schedule.memory.write_plan import (
    NotSeparable,
    check_separable,
    counters_in_the_way,
    gradients_of,
    join_places,
    keep_old,
    plan_writes,
    separate,
)

if TYPE_CHECKING:
    from wgcc.schedule.write_kernels import KernelWriter


@dataclass(frozen=True, slots=True)
class Shared:
    """The memory that all entries of a program share: it grows while they are planned.

    `writer` writes their kernels, once everything has its place. `pairs`: one dispatch may start
    the kernels of two small groups.
    """

    layout: Layout
    slots: Slots
    writer: KernelWriter | None = None
    pairs: bool = False

    @classmethod
    def of(cls, program: Program, pairs: bool = False) -> Shared:
        return cls(Layout.of(program), Slots(precision=program.precision), pairs=pairs)

    @property
    def kernels(self) -> KernelWriter:
        assert self.writer is not None, "not all entries are planned"
        return self.writer


Run = Callable[[EntryPlan, Shared], EntryPlan]
# The stage after a step, what the step does, and the step.
Step = tuple[str, str, Run]


@dataclass(frozen=True, slots=True)
class UntilStable:
    """Steps that run again while one of them asks for it."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class AfterAllEntries:
    """Steps that wait until all entries have come so far."""

    steps: tuple[Step, ...]


def fuse_values(plan: EntryPlan, shared: Shared) -> EntryPlan:
    fused = fuse(plan.graph, before_updates=plan.old, apart=plan.apart)
    return replace(plan, fused=fused)


def delay_for_memory(plan: EntryPlan, shared: Shared) -> EntryPlan:
    return replace(plan, fused=unfuse(plan.kernels, _fixed_names(plan.graph)))


def order_writes(plan: EntryPlan, shared: Shared) -> EntryPlan:
    writes = plan_writes(plan.kernels, dict(plan.graph.writes))
    late = frozenset(writes.late)
    return replace(plan, order=tuple(writes.order), in_place=writes.in_place, late=late)


def set_counters_apart(plan: EntryPlan, shared: Shared) -> EntryPlan:
    """Counters leave the kernels of gradients, if gradients are complete before updates by that."""
    if not plan.graph.entry.trains:
        return plan
    if plan.fallback is not None:
        in_vain = plan.late or counters_in_the_way(plan.graph, plan.order)
        return plan.fallback if in_vain else replace(plan, fallback=None)
    counters = frozenset() if plan.late else counters_in_the_way(plan.graph, plan.order)
    return replace(plan, apart=counters, fallback=plan, again=True) if counters else plan


def keep_old_values(plan: EntryPlan, shared: Shared) -> EntryPlan:
    """Values that updates replace too early are copied before."""
    if not plan.late:
        return plan
    graph, copies = keep_old(plan.graph, set(plan.late))
    return EntryPlan(graph, old=plan.old | copies, again=True)


def place_values(plan: EntryPlan, shared: Shared) -> EntryPlan:
    """Parameters, state, inputs, constants, gradients and results get their places."""
    graph, layout = plan.graph, shared.layout
    places = {v.name: layout.places[v.name] for v in (*graph.params, *graph.state)}
    places |= io_places(graph, layout)
    places |= constant_places(graph, layout)
    places |= {name: layout.places[target] for name, target in plan.in_place.items()}
    places = arena_places(graph, layout, places)
    for name, value in graph.outputs.items():
        if value.name not in places:
            key = layout.ports[graph.name].outputs[name]
            places[value.name] = own_place(key, "output", value, layout)
    if graph.range_flag:
        places[graph.range_flag.name] = layout.buffers.append(SCALARS, "state", 1)
    return replace(plan, places=places)


def order_groups(plan: EntryPlan, shared: Shared) -> EntryPlan:
    """The order that keeps least in memory."""
    memory = TemporaryMemory(plan.kernels, frozenset(plan.places))
    return replace(plan, order=tuple(best_order(list(plan.order), memory)[0]))


def separate_updates(plan: EntryPlan, shared: Shared) -> EntryPlan:
    """Groups that use gradients run when all gradients are complete, if there is such an order."""
    gradients = gradients_of(plan.graph, plan.places)
    try:
        check_separable(plan.graph, gradients)
        order, first = separate(plan.order, gradients)
    except NotSeparable as reason:
        return replace(plan, after_gradients=str(reason))
    return replace(plan, order=tuple(order), after_gradients=tuple(order[first:]))


def set_side_by_side(plan: EntryPlan, shared: Shared) -> EntryPlan:
    """Small groups that do not need each other get partners; gradients stay before updates."""
    if not shared.pairs:
        return plan
    from wgcc.schedule.memory.beside import side_by_side

    behind = plan.after_gradients if isinstance(plan.after_gradients, tuple) else ()
    before = plan.order[: len(plan.order) - len(behind)]
    order, beside = side_by_side(before, plan.places.keys())
    return replace(plan, order=(*order, *behind), beside=beside)


def enter_loops(plan: EntryPlan, shared: Shared) -> EntryPlan:
    """The groups of loops take their places among those of the entry."""
    packs = Packs(plan.places.keys(), shared.slots.precision == F16)
    layout = shared.layout
    expanded = expand_loops(plan.graph, plan.kernels, list(plan.order), layout, packs)
    places = {**plan.places, **expanded.counters}
    for body in expanded.graphs[1:]:
        places |= constant_places(body, layout)
    order, parts = tuple(expanded.order), expanded.parts
    entered = replace(plan, order=order, expanded=expanded, parts=parts, places=places)
    return replace(entered, exchange=_exchange(entered))


def find_live_ranges(plan: EntryPlan, shared: Shared) -> EntryPlan:
    """Values that another group than their own reads are kept; scalars among the scalars."""
    assert plan.expanded is not None
    accesses = Accesses(plan.expanded)
    made = accesses.first_writes()
    spans = BesideSpans.of(plan)
    reads = [(spans.last(i), names) for i, names in accesses.reads(made)]
    made = {name: (value, spans.first(i)) for name, (value, i) in made.items()}
    read = set().union(*(names for _, names in reads)) - plan.places.keys()
    kept = {name: made[name] for name in made if name in read}
    scalars = [name for name, (value, _) in kept.items() if value.type.size == 1]
    append = shared.layout.buffers.append
    places = {**plan.places, **{name: append(SCALARS, "state", 1) for name in scalars}}
    stored = {name: kept[name] for name in kept if name not in places}
    in_f16 = _in_f16(plan.expanded, stored) if shared.slots.precision == F16 else set()
    return replace(plan, places=places, lives=tuple(lives_of(stored, reads, in_f16)))


def assign_slots(plan: EntryPlan, shared: Shared) -> EntryPlan:
    """Temporaries share buffers, and the places of gradients that are written later."""
    assert plan.expanded is not None
    memory = TemporaryMemory(plan.expanded.fused, frozenset(plan.places))
    packs = plan.expanded.packs
    inits = {final.name: init for s in plan.loops for init, final in s.loop.carried}

    def succeeds(new: Life, old: Life) -> bool:
        if new.start != old.end or new.half != old.half or old.value.name in packs.members:
            return False
        value = inits.get(new.value.name, new.value)
        return memory.may_replace(plan.order[new.start], value, old.value)

    reuse = partial(take_from_arenas, gradient_places(plan))
    places = {**plan.places, **shared.slots.assign(plan.lives, succeeds, reuse)}
    return _name_places(replace(plan, places=places), plan.expanded)


def write_kernels(plan: EntryPlan, shared: Shared) -> EntryPlan:
    """Each group becomes a dispatch; groups that are equal but for their values share kernels."""
    return replace(plan, dispatches=shared.kernels.entry(plan))


STEPS: tuple[Step | UntilStable | AfterAllEntries, ...] = (
    UntilStable(
        (
            ("groups", "fuse", fuse_values),
            ("delayed", "delay for memory", delay_for_memory),
            ("writes", "order writes", order_writes),
            ("apart", "set counters apart", set_counters_apart),
            ("kept", "keep old values", keep_old_values),
        )
    ),
    ("stored", "place what outlives kernels", place_values),
    ("ordered", "order groups", order_groups),
    ("exchange", "separate updates", separate_updates),
    ("beside", "set side by side", set_side_by_side),
    ("loops", "expand loops", enter_loops),
    ("lives", "find live ranges", find_live_ranges),
    ("slots", "assign slots", assign_slots),
    AfterAllEntries((("kernels", "write kernels", write_kernels),)),
)

STAGES = tuple(
    stage for row in STEPS for stage, _, _ in ((row,) if isinstance(row, tuple) else row.steps)
)
Trace = dict[str, EntryPlan]


def plan_program(
    program: Program,
    candidates: bool = False,
    traces: dict[str, Trace] | None = None,
    pairs: bool = False,
) -> tuple[dict[str, EntryPlan], Shared]:
    """The plans of all entries after the last step, and what they share.

    `candidates`: dispatches have other launches too, for tuning to choose from. `traces` gets the
    plans of each entry by stage, the last one where it repeats. `pairs`: small kernels start
    together.
    """
    # Checks of small models write no kernels: they need not load what writes them.
    from wgcc.schedule.write_kernels import KernelWriter, place_copies

    traces = {} if traces is None else traces
    plans, shared = plan_entries(program, traces, pairs)
    is_f16 = program.precision == F16
    copies = place_copies(plans.values(), shared.layout) if is_f16 else None
    shared = replace(shared, writer=KernelWriter(shared.layout, candidates, copies))
    for row in STEPS:
        if isinstance(row, AfterAllEntries):
            for step in row.steps:
                plans = {n: _run(step, plan, shared, traces[n]) for n, plan in plans.items()}
    return plans, shared


def plan_entries(
    program: Program, traces: dict[str, Trace], pairs: bool = False
) -> tuple[dict[str, EntryPlan], Shared]:
    """The plans of all entries before kernels are written, and what they share."""
    shared = Shared.of(program, pairs)
    for name in program.entries:
        traces[name] = {}
    plans = {
        name: plan_entry(graph, shared, traces[name]) for name, graph in program.entries.items()
    }
    shared.slots.reserve_in(shared.layout)
    return plans, shared


def plan_entry(graph: Graph, shared: Shared, trace: Trace) -> EntryPlan:
    """The plan of one entry before kernels are written; `trace` gets that of each stage."""
    plan = EntryPlan(graph)
    for step in STEPS:
        if isinstance(step, UntilStable):
            plan = _run_until_stable(step, plan, shared, trace)
        elif not isinstance(step, AfterAllEntries):
            plan = _run(step, plan, shared, trace)
    return plan


def stage_text(program: Program, stage: str, pairs: bool = False) -> str:
    """The plan of every entry of a prepared program after one of the steps."""
    traces: dict[str, Trace] = {}
    plan_program(program, traces=traces, pairs=pairs)
    lines: list[str] = []
    for name, trace in traces.items():
        lines += [f"entry {name} {{", *(f"  {line}" for line in entry_text(trace[stage]))]
        lines += ["}", ""]
    return "\n".join(lines)


def _run(step: Step, plan: EntryPlan, shared: Shared, trace: Trace) -> EntryPlan:
    stage, _, run = step
    plan = run(plan, shared)
    if plan.fused is not None:
        trace[stage] = plan
    return plan


def _run_until_stable(
    block: UntilStable, plan: EntryPlan, shared: Shared, trace: Trace
) -> EntryPlan:
    # Each round keeps the old content of at least one more tensor, but for one with counters apart
    # and the last.
    for _ in range(2 * len(plan.graph.writes) + 2):
        plan = replace(plan, again=False)
        for step in block.steps:
            plan = _run(step, plan, shared, trace)
        if not plan.again:
            return plan
    raise AssertionError(f"the groups of {plan.graph.name} do not become stable")


def _fixed_names(graph: Graph) -> frozenset[str]:
    """Names of values with a place of their own: results, and what updates read and make."""
    names = {value.name for value in graph.results}
    for node in graph.nodes:
        if is_update(node):
            names.update(value.name for values in lists_of(node).values() for value in values)
            names |= replaced_by(node).keys()
        if node.op == "flat":
            names.update(value.name for value in (*node.inputs, *node.outputs))
    return frozenset(names)


def _exchange(plan: EntryPlan) -> Exchange | None:
    if not plan.graph.entry.trains:
        return None
    if isinstance(plan.after_gradients, str):
        return Exchange(why=plan.after_gradients)
    first = _position(plan, plan.after_gradients[0])
    gradients = gradients_of(plan.graph, plan.places)
    return Exchange(first, join_places(gradients.values()))


def _position(plan: EntryPlan, group: Group) -> int:
    """The position of a group in the expanded order; a loop is where its counter is set."""
    if group.kind != REPEAT:
        return plan.order.index(group)
    return next(x.first for x in plan.loops if x.loop.node is group.roots[0]) - 1


def _name_places(plan: EntryPlan, expanded: Expanded) -> EntryPlan:
    """All names of a carry have its place, parts have that of the whole."""
    places, parts = dict(plan.places), dict(plan.parts)
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
    return replace(plan, places=places, parts=parts)


def _in_f16(expanded: Expanded, stored: Made) -> set[str]:
    packs = set(expanded.packs.f16_packs)
    return packs.union(*(values_in_f16(graph, stored) for graph in expanded.graphs))
