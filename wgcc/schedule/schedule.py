"""Turn a program's graphs into dispatches: fused groups, written as kernels for each profile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from wgcc.ir.graph import FLOATS, Constant, Graph, Node
from wgcc.ir.index import IndexTooLarge
from wgcc.ir.loops import loop_of
from wgcc.ir.places import SCALARS
from wgcc.ir.program import Program
from wgcc.passes.dataflow import moves
from wgcc.schedule.codegen.limits import MAX_ITERATIONS
from wgcc.schedule.entry_plan import EntryPlan
from wgcc.schedule.expand_loops import COUNTER
from wgcc.schedule.fuse.group import FLAT, Group
from wgcc.schedule.kernel import (
    CANDIDATE,
    MAX_WORKGROUPS,
    Buffer,
    Dispatch,
    EntrySchedule,
    Launch,
    Made,
    Place,
    Rounds,
    Schedule,
)
from wgcc.schedule.kernels.access import share_access
from wgcc.schedule.kernels.attention import attention_code
from wgcc.schedule.kernels.attention_grad import (
    attention_grad_kv_code,
    attention_grad_q_code,
    attention_stats_code,
)
from wgcc.schedule.kernels.context import Context, GroupCode
from wgcc.schedule.kernels.counter import counter_code
from wgcc.schedule.kernels.guard import FLAG_BUFFER, guard
from wgcc.schedule.kernels.id_order import merge_ids_code, order_ids_code
from wgcc.schedule.kernels.id_sums import id_sums_code
from wgcc.schedule.kernels.loaded_weights import loaded_weights
from wgcc.schedule.kernels.loops import loop_candidates, loop_code
from wgcc.schedule.kernels.matmul import matmul_candidates, matmul_code
from wgcc.schedule.kernels.repeated import Repeated
from wgcc.schedule.kernels.scan import running_best_code, scan_code
from wgcc.schedule.kernels.scatter import scatter_code
from wgcc.schedule.kernels.select import select_code
from wgcc.schedule.kernels.sort import sort_code
from wgcc.schedule.kernels.state_space import (
    state_ends_code,
    state_grad_channels_code,
    state_grad_states_code,
    state_output_code,
    state_scan_code,
)
from wgcc.schedule.kernels.update import update_code
from wgcc.schedule.kernels.window_update import window_update_code
from wgcc.schedule.layout import CONSTANTS, COPIES, Copies, Layout
from wgcc.schedule.limits import check_limits, too_many_positions
from wgcc.schedule.steps import Shared, constant_key, plan_entry

Writer = Callable[[Group, Context], GroupCode]
WRITERS: dict[str, Writer] = {
    "attention": attention_code,
    "attention_grad_kv": attention_grad_kv_code,
    "attention_grad_q": attention_grad_q_code,
    "attention_stats": attention_stats_code,
    COUNTER: counter_code,
    "id_sums": id_sums_code,
    "loop": loop_code,
    "matmul": matmul_code,
    "merge_ids": merge_ids_code,
    "order_ids": order_ids_code,
    "running_best": running_best_code,
    "scan": scan_code,
    "scatter": scatter_code,
    "select": select_code,
    "sort": sort_code,
    "state_ends": state_ends_code,
    "state_grad_channels": state_grad_channels_code,
    "state_grad_states": state_grad_states_code,
    "state_output": state_output_code,
    "state_scan": state_scan_code,
    "update": update_code,
    "window_update": window_update_code,
}
# Other launches, for `wgcc tune` to choose from.
CANDIDATES: dict[str, Callable[[Group, Context], list[Launch]]] = {
    "loop": loop_candidates,
    "matmul": matmul_candidates,
}


def schedule(program: Program, candidates: bool = False) -> Schedule:
    """Schedule every entry of a prepared program.

    `candidates`: dispatches have other launches too, for tuning to choose from.
    """
    graphs, shared = program.entries, Shared.of(program)
    layout = shared.layout
    planned = {name: plan_entry(graph, shared) for name, graph in graphs.items()}
    shared.slots.reserve_in(layout)
    copies = _copies(planned.values(), layout) if program.precision == "f16" else None
    writer = _Writer(layout, candidates, copies)
    written = {name: writer.entry(entry) for name, entry in planned.items()}
    entries = _with_shared_access(
        {name: _guarded(entry, graphs[name], layout) for name, entry in written.items()}
    )
    tensors = {name: layout.places[name] for name in (*program.params, *program.state)}
    constants = _constants(planned, layout)
    refresh = copies.refresh() if copies else ()
    scheduled = Schedule(_buffers(layout, entries), tensors, entries, constants, refresh)
    check_limits(program, scheduled)
    return scheduled


class _Writer:
    """Writes the dispatches of entries; groups that are equal but for their values share kernels.

    With `candidates`, dispatches have more launches, for tuning to choose from. `copies`: of
    weights, in a model of `precision = f16`.
    """

    def __init__(self, layout: Layout, candidates: bool, copies: Copies | None) -> None:
        self._scalar_words = layout.buffers.words(SCALARS)
        self._candidates = candidates
        self._copies = copies
        self._repeated = Repeated()

    def entry(self, planned: EntryPlan) -> EntrySchedule:
        graph, places = planned.graph, planned.places
        copies = self._copies
        refresh = copies.refresh(copies.left_over(graph)) if copies else ()
        return EntrySchedule(
            graph.name,
            (*(self._dispatch(g, planned) for g in planned.order if g.kind != FLAT), *refresh),
            {value.name: places[value.name] for value in graph.inputs},
            planned.outputs,
            tuple(sorted(graph.writes)),
            _ops(graph),
            {x.value.name: (places[x.value.name], x.start, x.end) for x in planned.lives},
            trains=graph.trains,
            range_flag=places[graph.range_guard.flag.name] if graph.range_guard else None,
            repeats=_repeats(planned),
            exchange=planned.exchange,
        )

    def _dispatch(self, group: Group, planned: EntryPlan) -> Dispatch:
        context = self._context(group, planned)
        span = next((root.span for root in reversed(group.roots) if root.span), None)
        try:
            code = self._repeated.code(group, context, self._code)
        except IndexTooLarge as error:
            raise too_many_positions(error, span) from None
        label, flops = _label(group, planned), sum(_product_flops(root) for root in group.roots)
        shows = tuple(", then ".join(texts) for texts in code.shows)
        made = tuple(_made(group, planned))
        return Dispatch(label, code.regions, code.launches, shows, code.twin, span, flops, made)

    def _context(self, group: Group, planned: EntryPlan) -> Context:
        loaded = _loaded_weights(group, planned) if self._copies else set()
        places = planned.places
        if self._copies and loaded:
            places = {**places, **{name: self._copies.place(name) for name in loaded}}
        context = Context(
            planned.kernels.inlined,
            lambda value: places[value.name],
            planned.is_stored,
            self._scalar_words,
            planned.parts,
        )
        if self._copies is not None:
            context.halves, context.copied = True, self._copies.span_in
        return context

    def _code(self, group: Group, context: Context) -> GroupCode:
        code = WRITERS[group.kind](group, context)
        if not self._candidates or group.kind not in CANDIDATES:
            return code
        launches = CANDIDATES[group.kind](group, context)
        others = dict.fromkeys(x for x in launches if _is_new(x, code.launches))
        more = {f"{CANDIDATE}{i}": launch for i, launch in enumerate(others)}
        return replace(code, launches={**code.launches, **more})


def _copies(entries: Iterable[EntryPlan], layout: Layout) -> Copies:
    """Of all weights that products load, with places for them."""
    names = set[str]().union(
        *(_loaded_weights(group, entry) for entry in entries for group in entry.order)
    )
    copies = Copies.of(names, layout.places)
    for span in copies.spans():
        layout.buffers.reserve(span.copy.buffer, COPIES, span.end // 2)
    return copies


def _loaded_weights(group: Group, planned: EntryPlan) -> set[str]:
    params = {value.name: value for value in planned.graph.params}
    return loaded_weights(group, params, planned.kernels.inlined, planned.parts)


def _repeats(planned: EntryPlan) -> tuple[Rounds, ...]:
    """The loops as ranges of dispatches."""
    before = [0]
    for group in planned.order:
        before.append(before[-1] + (group.kind != FLAT))
    return tuple(
        Rounds(before[x.first], before[x.last + 1] - before[x.first], x.loop.rounds)
        for x in planned.loops
    )


def _ops(graph: Graph) -> int:
    """How many ops a call computes, each round of a loop counted."""
    return sum(
        loop.rounds * _ops(loop.body) if (loop := loop_of(node)) else not moves(node)
        for node in graph.nodes
    )


def _with_shared_access(entries: Mapping[str, EntrySchedule]) -> dict[str, EntrySchedule]:
    shared = iter(share_access([d for entry in entries.values() for d in entry.dispatches]))
    return {
        name: replace(entry, dispatches=tuple(islice(shared, len(entry.dispatches))))
        for name, entry in entries.items()
    }


def _guarded(entry: EntrySchedule, graph: Graph, layout: Layout) -> EntrySchedule:
    """With the test for NaN, if it trains."""
    if not entry.trains:
        return entry
    floats = [name for name in entry.written if graph.writes[name].dtype in FLOATS]
    return replace(entry, guard=guard({name: layout.places[name] for name in floats}))


def _buffers(layout: Layout, entries: Mapping[str, EntrySchedule]) -> tuple[Buffer, ...]:
    is_guarded = any(entry.guard for entry in entries.values())
    return (*layout.buffers.sized(), *([FLAG_BUFFER] if is_guarded else []))


def _is_new(launch: Launch, launches: Mapping[str, Launch]) -> bool:
    fits = max(launch.grid) <= MAX_WORKGROUPS and launch.iterations <= MAX_ITERATIONS
    return fits and launch not in launches.values()


def _product_flops(node: Node) -> int:
    """Multiplications and additions of a matrix product; all else is bound by memory."""
    return 2 * node.output.type.size * node.inputs[0].shape[-1] if node.op == "matmul" else 0


def _made(group: Group, planned: EntryPlan) -> Iterator[Made]:
    for root in group.roots:
        here = group.why[root.outputs[0].name]
        stored = [value for value in root.outputs if planned.is_stored(value)]
        if stored:
            why = planned.kernels.reasons[stored[0].name].text
            yield Made(tuple(value.name for value in stored), here, why)
        if len(stored) < len(root.outputs):
            others = (value.name for value in root.outputs if value not in stored)
            yield Made(tuple(others), here)


def _label(group: Group, planned: EntryPlan) -> str:
    """What a group computes, in the words of the source: the last thing it keeps."""
    if group.kind == "update":
        return group.roots[0].op
    stored = [v for root in group.roots for v in root.outputs if planned.is_stored(v)]
    return stored[-1].name.removesuffix(".copy").removesuffix(".write").removesuffix(".pack")


def _constants(planned: dict[str, EntryPlan], layout: Layout) -> dict[str, tuple[Constant, Place]]:
    """The words of every distinct constant, by name, with its place."""
    found: dict[str, tuple[Constant, Place]] = {}
    for entry in planned.values():
        for constant in (constant for graph in entry.graphs for constant in graph.constants):
            place = layout.places[constant_key(constant)]
            found.setdefault(f"{CONSTANTS}/{place.offset}", (constant, place))
    return found
