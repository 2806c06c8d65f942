"""Says of a small program that its kernels keep WebGPU's limits, before they are written.

`wgcc check` asks this first: writing kernels takes most of a build. Where nothing is certain, the
kernels of a group are written and looked at; a program that breaks a limit is left to `schedule`,
whose errors name the lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from wgcc.ir.dtypes import F16
from wgcc.ir.graph import Graph, Node
from wgcc.ir.places import MAX_BINDING, MAX_BINDINGS, SCALARS, WORD
from wgcc.ir.program import Program
from wgcc.ops.registry import View
from wgcc.passes.dataflow import lists_of, lowering
from wgcc.passes.lay_out import Layout
from wgcc.schedule.entry_plan import EntryPlan
from wgcc.schedule.fuse.group import FLAT, Group, Touched, column_sums, rows_of
from wgcc.schedule.fuse.merge import RowLoops
from wgcc.schedule.kernel import GOOD_ITERATIONS, MAX_WORKGROUP_BYTES
from wgcc.schedule.limits import MAX_RUN, MAX_UNIFORMS, dispatch_problems
from wgcc.schedule.steps import plan_entries

# Positions of elements are computed with 32 bits. Windows multiply them by strides and dilations,
# views of views do so again: this leaves room for that.
MOST_ELEMENTS = 1 << 24
# The most lanes of a workgroup, each with a word of every reduction.
LANES = 256
# Groups of these kinds are cut so that only the number of their bindings can be too large.
CUT_TO_FIT = ("counter", "matmul", "update")


def keeps_limits(program: Program) -> bool:
    """Do all kernels of a prepared program surely keep the default limits?"""
    graphs = program.entries.values()
    if program.precision == F16 or not all(map(_has_small_positions, graphs)):
        return False
    plans, shared = plan_entries(program, {})
    buffers = shared.layout.buffers.with_sizes()
    if any(buffer.words * WORD > MAX_BINDING for buffer in buffers):
        return False
    if not all(map(_runs_few, plans.values())):
        return False
    uncertain = [(group, plan) for plan in plans.values() for group in _uncertain(plan)]
    return not uncertain or _fit(uncertain, shared.layout)


def _has_small_positions(graph: Graph) -> bool:
    return all(map(_is_small, graph.nodes))


def _is_small(node: Node) -> bool:
    size = max((value.type.size for value in (*node.inputs, *node.outputs)), default=0)
    lower = lowering(node)
    reaches_outside = isinstance(lower, View) and lower.inside is not None
    steps = max(_numbers(node.attrs.values()), default=1) if reaches_outside else 1
    bodies = (part for part in node.attrs.values() if isinstance(part, Graph))
    return size * max(steps, 1) <= MOST_ELEMENTS and all(map(_has_small_positions, bodies))


def _numbers(attrs: Iterable[object]) -> Iterator[int]:
    for attr in attrs:
        if isinstance(attr, int):
            yield abs(attr)
        elif isinstance(attr, tuple | list):
            yield from _numbers(attr)


def _runs_few(plan: EntryPlan) -> bool:
    rounds = prod(span.loop.rounds for span in plan.loops)
    return len(plan.loops) <= MAX_UNIFORMS and len(plan.order) * rounds <= MAX_RUN


def _uncertain(plan: EntryPlan) -> list[Group]:
    touched = Touched(plan.kernels.inlined)
    groups = (group for group in plan.order if group.kind != FLAT)
    return [group for group in groups if not _surely_fits(group, plan, touched)]


def _fit(groups: list[tuple[Group, EntryPlan]], layout: Layout) -> bool:
    """Writes the kernels of groups and asks whether all of them keep the limits."""
    from wgcc.schedule.write_kernels import KernelWriter

    writer = KernelWriter(layout, candidates=False, copies=None)
    dispatches = (writer.dispatch(group, plan) for group, plan in groups)
    return not any(problem for dispatch in dispatches for problem in dispatch_problems(dispatch))


def _surely_fits(group: Group, plan: EntryPlan, touched: Touched) -> bool:
    if _most_bindings(group, plan, touched) > MAX_BINDINGS:
        return False
    return group.kind in CUT_TO_FIT or (group.kind == "loop" and _is_short_loop(group, plan))


def _most_bindings(group: Group, plan: EntryPlan, touched: Touched) -> int:
    """The regions of all it may read and write; an update binds each of its lists at once."""
    updates = group.roots if group.kind == "update" else []
    lists = [values for root in updates for values in lists_of(root).values()]
    at_once = {value.name for values in lists for value in values}
    # What an update makes replaces one of its lists.
    made = group.names if not updates else set()
    names = {name for root in group.roots for name in touched(root)} - at_once | made
    places = [plan.places[name] for name in names if name in plan.places]
    regions = {place.bound for place in places if place.buffer != SCALARS and not place.uniform}
    has_scalars = any(place.buffer == SCALARS for place in places)
    return len(regions) + has_scalars + len(lists)


def _is_short_loop(group: Group, plan: EntryPlan) -> bool:
    """Has a thread few iterations, even if it takes whole rows, and do lanes share little?"""
    space = group.space
    assert space is not None
    columns = column_sums(group.roots, space)
    each = max((rows_of(node, space) for node in columns), default=1)
    loops = RowLoops(group, plan.kernels.inlined).count
    shared = WORD * (len(group.roots) * LANES + len(columns) * space.inner)
    return each * loops * space.inner <= GOOD_ITERATIONS and shared <= MAX_WORKGROUP_BYTES
