"""Turn a prepared program into its buffers and dispatches, checked against WebGPU's limits.

WebGPU wants one access for a buffer in a dispatch, and dispatches that could share a kernel should
want the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from wgcc.ir.graph import FLOATS, Constant, Graph
from wgcc.ir.program import Program, is_capture
from wgcc.passes.lay_out import CONSTANTS, Layout, constant_key
from wgcc.schedule.entry_plan import EntryPlan
from wgcc.schedule.kernel import (
    PAIR,
    Buffer,
    Dispatch,
    EntrySchedule,
    Kernel,
    Launch,
    Place,
    Schedule,
    overlapping,
)
from wgcc.schedule.kernels.guard import FLAG_BUFFER, guard
from wgcc.schedule.limits import check_limits
from wgcc.schedule.steps import plan_program

# The numbers of the bindings that are `read_write`.
Access = frozenset[int]


def schedule(program: Program, candidates: bool = False, pairs: bool = False) -> Schedule:
    """Schedule every entry of a prepared program.

    `candidates`: dispatches have other launches too, for tuning to choose from. `pairs`: one
    dispatch may start two small kernels. Where none does, nothing else changes: that a bundle has
    such dispatches is how others know what it was built with.
    """
    scheduled = _schedule(program, candidates, pairs)
    if pairs and not any(PAIR in dispatch.label for dispatch in scheduled.dispatches):
        return _schedule(program, candidates, pairs=False)
    return scheduled


def _schedule(program: Program, candidates: bool, pairs: bool) -> Schedule:
    plans, shared = plan_program(program, candidates, pairs=pairs)
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


def share_access(dispatches: Sequence[Dispatch]) -> list[Dispatch]:
    """The dispatches, with one access for all that have the same launches."""
    alike: dict[tuple[tuple[str, Launch], ...], list[int]] = {}
    for i, dispatch in enumerate(dispatches):
        alike.setdefault(tuple(dispatch.launches.items()), []).append(i)
    sharing = list(dispatches)
    for members in alike.values():
        launches = dispatches[members[0]].launches
        regions = [dispatches[i].regions for i in members]
        common = _launches(launches, _access(launches, [r for r in regions if not _overlap(r)]))
        for i, own in zip(members, regions, strict=True):
            alone = _launches(launches, _access(launches, [own])) if _overlap(own) else common
            sharing[i] = replace(dispatches[i], launches=alone)
    return sharing


def _access(launches: Mapping[str, Launch], dispatches: Iterable[Sequence[Place]]) -> Access:
    """The bindings that are written, or share a buffer with one that is in some dispatch."""
    known = list(dispatches)
    kernels = (launch.kernel for launch in launches.values())
    access = {i for kernel in kernels for i, b in enumerate(kernel.bindings) if b.written}
    before = -1
    while len(access) > before:
        before = len(access)
        for regions in known:
            written = {regions[i].buffer for i in access}
            access |= {i for i, region in enumerate(regions) if region.buffer in written}
    return frozenset(access)


def _launches(launches: Mapping[str, Launch], access: Access) -> dict[str, Launch]:
    return {
        name: replace(launch, kernel=_with_access(launch.kernel, access))
        for name, launch in launches.items()
    }


def _with_access(kernel: Kernel, access: Access) -> Kernel:
    bindings = (replace(b, aliased=i in access) for i, b in enumerate(kernel.bindings))
    return replace(kernel, bindings=tuple(bindings))


def _overlap(regions: Sequence[Place]) -> bool:
    """Do two bindings share words? They may do so only as long as both are `read`."""
    return any(overlapping(regions))


def _add_guard(plan: EntryPlan, layout: Layout) -> EntrySchedule:
    """The kernels of an entry, with the test for NaN if it trains."""
    entry = plan.dispatches
    assert entry is not None, "the last step writes kernels"
    if not entry.trains:
        return entry
    names = [name for name in entry.written if plan.graph.writes[name].dtype in FLOATS]
    floats = {name: layout.places[name] for name in names}
    return replace(entry, guard=guard(floats), finite=floats | _numbers(plan.graph, entry))


def _numbers(graph: Graph, entry: EntrySchedule) -> dict[str, Place]:
    """The outputs that are one float, such as a loss."""
    return {
        f"output {name}": entry.outputs[name]
        for name, value in graph.outputs.items()
        if value.dtype in FLOATS and value.type.size == 1 and not is_capture(name)
    }


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
