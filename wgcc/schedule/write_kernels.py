"""Writes the kernels of a planned entry: one writer for each kind of group.

Equal kernels are written once: groups that differ in names and addresses, such as those of equal
layers, have the same code.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.index import IndexTooLarge
from wgcc.ir.loops import loop_of
from wgcc.ir.places import SCALARS
from wgcc.passes.dataflow import moves
from wgcc.passes.lay_out import Layout
from wgcc.schedule.codegen.bindings import shown_as
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
    Place,
    Rounds,
)
from wgcc.schedule.kernels.attention import (
    attention_code,
    attention_grad_kv_code,
    attention_grad_q_code,
    attention_stats_code,
)
from wgcc.schedule.kernels.context import GroupCode, GroupContext
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
from wgcc.schedule.kernels.stats import stats_code
from wgcc.schedule.kernels.update import COPIES, Copies, counter_code, update_code
from wgcc.schedule.kernels.window_update import window_update_code
from wgcc.schedule.limits import too_many_positions

if TYPE_CHECKING:
    from wgcc.schedule.kernels.side_by_side import SideBySide

Writer = Callable[[Group, GroupContext], GroupCode]
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
CANDIDATES: dict[str, Callable[[Group, GroupContext], list[Launch]]] = {
    "loop": loop_candidates,
    "matmul": matmul_candidates,
}

# An update binds whole runs of tensors: which of them are side by side is part of its kernels.
BY_ADDRESS = ("update",)


class KernelWriter:
    """Writes the dispatches of entries; groups that are equal but for their values share kernels.

    With `candidates`, dispatches have more launches, for tuning to choose from. `copies`: of
    weights, in a model of `precision = f16`.
    """

    def __init__(self, layout: Layout, candidates: bool, copies: Copies | None) -> None:
        self._scalar_words = layout.buffers.words(SCALARS)
        self._candidates = candidates
        self.copies = copies
        # Nothing but the form of a group decides about its code, unless it is for f16.
        self._repeated = _WRITTEN if not candidates and copies is None else Repeated()
        self._side_by_side: SideBySide | None = None

    def entry(self, planned: EntryPlan) -> EntrySchedule:
        graph, places = planned.graph, planned.places
        copies = self.copies
        refresh = copies.refresh(copies.left_over(graph)) if copies else ()
        dispatches, before = self._dispatches(planned)
        exchange = planned.exchange
        if exchange and not exchange.why:
            exchange = replace(exchange, dispatch=before[exchange.dispatch])
        return EntrySchedule(
            graph.name,
            (*dispatches, *refresh),
            {value.name: places[value.name] for value in graph.inputs},
            planned.outputs,
            tuple(sorted(graph.writes)),
            _ops(graph),
            {x.value.name: (places[x.value.name], x.start, x.end) for x in planned.lives},
            trains=graph.entry.trains,
            range_flag=places[graph.range_flag.name] if graph.range_flag else None,
            repeats=_repeats(planned, before),
            exchange=exchange,
        )

    def _dispatches(self, planned: EntryPlan) -> tuple[list[Dispatch], list[int]]:
        """The dispatches, and how many of them come before each group, and before the end."""
        follow = {id(group) for groups in planned.beside for group in groups[1:]}
        done, run, before = list[Dispatch](), list[Dispatch](), list[int]()
        for group in planned.order:
            if id(group) not in follow:
                done += self._join(run)
                run = []
            before.append(len(done))
            run += [] if group.kind == FLAT else [self.dispatch(group, planned)]
        done += self._join(run)
        return done, [*before, len(done)]

    def _join(self, run: list[Dispatch]) -> list[Dispatch]:
        """Fewer dispatches that start the same kernels, which do not need each other."""
        if len(run) < 2:
            return run
        if self._side_by_side is None:
            from wgcc.schedule.kernels.side_by_side import SideBySide

            self._side_by_side = SideBySide()
        return self._side_by_side.join(run)

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
        works = ((code.work, code.regions),)
        return Dispatch(label, code.regions, code.launches, shows, works, span, flops, made)

    def _context(self, group: Group, planned: EntryPlan) -> GroupContext:
        loaded = _loaded_weights(group, planned) if self.copies else set()
        places = planned.places
        if self.copies and loaded:
            places = {**places, **{name: self.copies.place(name) for name in loaded}}
        context = GroupContext(
            planned.kernels.inlined,
            lambda value: places[value.name],
            planned.is_stored,
            self._scalar_words,
            planned.parts,
        )
        if self.copies is not None:
            context.halves, context.copied = True, self.copies.regions_to_copy
        return context

    def _code(self, group: Group, context: GroupContext) -> GroupCode:
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


def _repeats(planned: EntryPlan, before: Sequence[int]) -> tuple[Rounds, ...]:
    """The loops as ranges of dispatches; `before`: how many come before each group."""
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


@dataclass(frozen=True, slots=True)
class _Written:
    """Code, and the names and places of the values in it."""

    code: GroupCode
    shown: list[str]
    regions: list[Place]


# How many forms are remembered: those of some dozen models.
MOST_FORMS = 2_000


class Repeated:
    """Remembers the code of groups by their form, the last ones of them."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, _Written] = OrderedDict()

    def code(self, group: Group, context: GroupContext, write: Writer) -> GroupCode:
        """The code that `write` gives for this group, or gave for another one of the same form."""
        if group.kind in BY_ADDRESS:
            return write(group, context)
        form, values = _form(group, context)
        shown = [shown_as(value) for value in values]
        regions = [context.bindings().region(v) for v in values if context.is_stored(v)]
        known = self._known.get(form)
        if known is None:
            known = self._known[form] = _Written(write(group, context), shown, regions)
            if len(self._known) > MOST_FORMS:
                self._known.popitem(last=False)
        here = dict(zip(known.regions, regions, strict=True))
        called = dict(zip(known.shown, shown, strict=True))
        return GroupCode(
            known.code.launches,
            tuple(here[region] for region in known.code.regions),
            tuple(tuple(called.get(text, text) for text in texts) for texts in known.code.shows),
            known.code.work,
        )


# The code of groups that this process has written: variants of a program have most of it.
_WRITTEN = Repeated()


def _form(group: Group, context: GroupContext) -> tuple[Hashable, list[Value]]:
    """A group without names and addresses, and its values in the order in which it has them."""
    values: dict[str, Value] = {}
    numbers: dict[str, int] = {}
    regions: dict[Place, int] = {}

    def number(value: Value) -> int:
        values.setdefault(value.name, value)
        return numbers.setdefault(value.name, len(numbers))

    def place_form(value: Value) -> Hashable:
        if not context.is_stored(value):
            return None
        place = context.place(value)
        if place.buffer == SCALARS:
            return place.offset, context.scalar_words
        number = regions.setdefault(place.bound, -1 - len(regions))
        size = place.bound.bytes
        return number, size, place.first, place.count, place.half, place.in_bytes

    nodes = []
    for node in _nodes(group, context):
        operands, results = map(number, node.inputs), map(number, node.outputs)
        attrs = tuple(sorted((name, repr(value)) for name, value in node.attrs.items()))
        nodes.append((node.op, attrs, *operands, None, *results))
    places = [(value.type, place_form(value)) for value in values.values()]
    return (group.kind, group.space, len(group.roots), *nodes, None, *places), [*values.values()]


def _nodes(group: Group, context: GroupContext) -> list[Node]:
    """The group's roots, all that is computed on the way to them, and what is part of what."""
    nodes = list(group.roots)
    seen = set(group.names)
    for value in (value for root in group.roots for value in root.outputs):
        nodes += _part(value, context)
    for node in nodes:
        for value in node.inputs:
            if value.name not in seen:
                seen.add(value.name)
                producer = context.inlined.get(value.name)
                nodes += [producer] if producer is not None else _part(value, context)
    return nodes


def _part(value: Value, context: GroupContext) -> list[Node]:
    """A node that makes a part of the tensor of all rounds; none if the value is no part."""
    part = context.parts.get(value.name)
    return [Node("part", (part.whole, part.index), (value,))] if part else []
