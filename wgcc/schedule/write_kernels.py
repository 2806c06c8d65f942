"""Writes the kernels of a planned entry: one writer for each kind of group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from wgcc.ir.graph import Graph, Node
from wgcc.ir.index import IndexTooLarge
from wgcc.ir.loops import loop_of
from wgcc.ir.places import SCALARS
from wgcc.passes.dataflow import moves
from wgcc.passes.lay_out import Layout
from wgcc.schedule.entry_plan import EntryPlan
from wgcc.schedule.expand_loops import COUNTER
from wgcc.schedule.fuse.group import FLAT, Group
from wgcc.schedule.kernel import (
    CANDIDATE,
    MAX_ITERATIONS,
    MAX_WORKGROUPS,
    Dispatch,
    EntrySchedule,
    Launch,
    Made,
    Rounds,
)
from wgcc.schedule.kernels.attention import (
    attention_code,
    attention_grad_kv_code,
    attention_grad_q_code,
    attention_stats_code,
)
from wgcc.schedule.kernels.context import Context, GroupCode
from wgcc.schedule.kernels.copies import COPIES, Copies
from wgcc.schedule.kernels.id_sums import id_sums_code, merge_ids_code, order_ids_code, scatter_code
from wgcc.schedule.kernels.loops import loop_candidates, loop_code
from wgcc.schedule.kernels.matmul import matmul_candidates, matmul_code
from wgcc.schedule.kernels.operands import loaded_weights
from wgcc.schedule.kernels.ordering import select_code, sort_code
from wgcc.schedule.kernels.recurrences import (
    running_best_code,
    scan_code,
    state_ends_code,
    state_grad_channels_code,
    state_grad_states_code,
    state_output_code,
    state_scan_code,
)
from wgcc.schedule.kernels.repeated import Repeated
from wgcc.schedule.kernels.stats import stats_code
from wgcc.schedule.kernels.update import counter_code, update_code
from wgcc.schedule.kernels.window_update import window_update_code
from wgcc.schedule.limits import too_many_positions

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
    "stats": stats_code,
    "update": update_code,
    "window_update": window_update_code,
}
# Other launches, for `wgcc tune` to choose from.
CANDIDATES: dict[str, Callable[[Group, Context], list[Launch]]] = {
    "loop": loop_candidates,
    "matmul": matmul_candidates,
}


class KernelWriter:
    """Writes the dispatches of entries; groups that are equal but for their values share kernels.

    With `candidates`, dispatches have more launches, for tuning to choose from. `copies`: of
    weights, in a model of `precision = f16`.
    """

    def __init__(self, layout: Layout, candidates: bool, copies: Copies | None) -> None:
        self._scalar_words = layout.buffers.words(SCALARS)
        self._candidates = candidates
        self.copies = copies
        self._repeated = Repeated()

    def entry(self, planned: EntryPlan) -> EntrySchedule:
        graph, places = planned.graph, planned.places
        copies = self.copies
        refresh = copies.refresh(copies.left_over(graph)) if copies else ()
        return EntrySchedule(
            graph.name,
            (*(self.dispatch(g, planned) for g in planned.order if g.kind != FLAT), *refresh),
            {value.name: places[value.name] for value in graph.inputs},
            planned.outputs,
            tuple(sorted(graph.writes)),
            _ops(graph),
            {x.value.name: (places[x.value.name], x.start, x.end) for x in planned.lives},
            trains=graph.entry.trains,
            range_flag=places[graph.range_flag.name] if graph.range_flag else None,
            repeats=_repeats(planned),
            exchange=planned.exchange,
        )

    def dispatch(self, group: Group, planned: EntryPlan) -> Dispatch:
        context = self._context(group, planned)
        span = next((root.span for root in reversed(group.roots) if root.span), None)
        try:
            code = self._repeated.code(group, context, self._code)
        except IndexTooLarge as error:
            raise too_many_positions(error, span) from None
        label, flops = _label(group, planned), sum(_product_flops(root) for root in group.roots)
        shows = tuple(", then ".join(texts) for texts in code.shows)
        made = tuple(_explain_outputs(group, planned))
        return Dispatch(label, code.regions, code.launches, shows, code.work, span, flops, made)

    def _context(self, group: Group, planned: EntryPlan) -> Context:
        loaded = _loaded_weights(group, planned) if self.copies else set()
        places = planned.places
        if self.copies and loaded:
            places = {**places, **{name: self.copies.place(name) for name in loaded}}
        context = Context(
            planned.kernels.inlined,
            lambda value: places[value.name],
            planned.is_stored,
            self._scalar_words,
            planned.parts,
        )
        if self.copies is not None:
            context.halves, context.copied = True, self.copies.span_in
        return context

    def _code(self, group: Group, context: Context) -> GroupCode:
        code = WRITERS[group.kind](group, context)
        if not self._candidates or group.kind not in CANDIDATES:
            return code
        launches = CANDIDATES[group.kind](group, context)
        others = dict.fromkeys(x for x in launches if _is_new(x, code.launches))
        more = {f"{CANDIDATE}{i}": launch for i, launch in enumerate(others)}
        return replace(code, launches={**code.launches, **more})


def place_copies(entries: Iterable[EntryPlan], layout: Layout) -> Copies:
    """f16 copies of all weights that products load, with places for them."""
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


def _is_new(launch: Launch, launches: Mapping[str, Launch]) -> bool:
    fits = max(launch.grid) <= MAX_WORKGROUPS and launch.iterations <= MAX_ITERATIONS
    return fits and launch not in launches.values()


def _product_flops(node: Node) -> int:
    """Multiplications and additions of a matrix product; all else is bound by memory."""
    return 2 * node.output.type.size * node.inputs[0].shape[-1] if node.op == "matmul" else 0


def _explain_outputs(group: Group, planned: EntryPlan) -> Iterator[Made]:
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
    """Names a group in the words of the source: after the last value it stores."""
    if group.kind == "update":
        return group.roots[0].op
    stored = [v for root in group.roots for v in root.outputs if planned.is_stored(v)]
    return stored[-1].name.removesuffix(".copy").removesuffix(".write").removesuffix(".pack")
