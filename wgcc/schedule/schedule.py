"""Turn a prepared program into its buffers and dispatches, checked against WebGPU's limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from wgcc.ir.graph import FLOATS, Constant
from wgcc.ir.program import Program
from wgcc.passes.lay_out import CONSTANTS, Layout, constant_key
from wgcc.schedule.entry_plan import EntryPlan
from wgcc.schedule.kernel import (
    Buffer,
    EntrySchedule,
    Place,
    Schedule,
)
from wgcc.schedule.kernels.guard import FLAG_BUFFER, guard
from wgcc.schedule.kernels.repeated import share_access
from wgcc.schedule.limits import check_limits
from wgcc.schedule.steps import plan_program


def schedule(program: Program, candidates: bool = False) -> Schedule:
    """Schedule every entry of a prepared program.

    `candidates`: dispatches have other launches too, for tuning to choose from.
    """
    plans, shared = plan_program(program, candidates)
    layout, copies = shared.layout, shared.kernels.copies
    entries = _with_shared_access({name: _add_guard(plan, layout) for name, plan in plans.items()})
    tensors = {name: layout.places[name] for name in (*program.params, *program.state)}
    constants = _constants(plans, layout)
    refresh = copies.refresh() if copies else ()
    scheduled = Schedule(_buffers(layout, entries), tensors, entries, constants, refresh)
    check_limits(program, scheduled)
    return scheduled


def _with_shared_access(entries: Mapping[str, EntrySchedule]) -> dict[str, EntrySchedule]:
    shared = iter(share_access([d for entry in entries.values() for d in entry.dispatches]))
    return {
        name: replace(entry, dispatches=tuple(islice(shared, len(entry.dispatches))))
        for name, entry in entries.items()
    }


def _add_guard(plan: EntryPlan, layout: Layout) -> EntrySchedule:
    """The kernels of an entry, with the test for NaN if it trains."""
    entry = plan.dispatches
    assert entry is not None, "the last step writes kernels"
    if not entry.trains:
        return entry
    floats = [name for name in entry.written if plan.graph.writes[name].dtype in FLOATS]
    return replace(entry, guard=guard({name: layout.places[name] for name in floats}))


def _buffers(layout: Layout, entries: Mapping[str, EntrySchedule]) -> tuple[Buffer, ...]:
    is_guarded = any(entry.guard for entry in entries.values())
    return (*layout.buffers.with_sizes(), *([FLAG_BUFFER] if is_guarded else []))


def _constants(planned: dict[str, EntryPlan], layout: Layout) -> dict[str, tuple[Constant, Place]]:
    """The words of every distinct constant, by name, with its place."""
    constants: dict[str, tuple[Constant, Place]] = {}
    for entry in planned.values():
        for constant in (constant for graph in entry.graphs for constant in graph.constants):
            place = layout.places[constant_key(constant)]
            constants.setdefault(f"{CONSTANTS}/{place.offset}", (constant, place))
    return constants
