"""WebGPU's limits, checked once kernels and buffers are known; errors name the line.

Every device grants the defaults. Of the sizes of bindings and buffers most grant more, so a bundle
may require that: see `raised_limits.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from wgcc.errors import Diagnostics, Span, WgError
from wgcc.ir.index import IndexTooLarge
from wgcc.ir.places import LARGEST, MIB, ceil_div
from wgcc.ir.program import Program
from wgcc.passes.lay_out import check_buffers
from wgcc.schedule.codegen.limits import MAX_ITERATIONS
from wgcc.schedule.kernel import (
    GPU,
    MAX_BINDINGS,
    MAX_WORKGROUP_BYTES,
    MAX_WORKGROUPS,
    Dispatch,
    EntrySchedule,
    Schedule,
)

MAX_UNIFORMS = 12
# Runtimes refuse calls that run more dispatches: recording them would take seconds.
MAX_RUN = 1_000_000


def check_limits(program: Program, schedule: Schedule) -> None:
    """Raise one error with every dispatch and buffer that no browser would take."""
    diagnostics = Diagnostics()
    for entry in schedule.entries.values():
        for dispatch in entry.dispatches:
            if dispatch.span is not None:
                _check_dispatch(diagnostics, dispatch, dispatch.span)
        _check_rounds(diagnostics, entry)
    if diagnostics.errors:
        raise WgError("the model does not fit WebGPU's limits", diagnostics)
    check_buffers(program, schedule.buffers)


def too_many_positions(error: IndexTooLarge, span: Span | None) -> WgError:
    """Of elements that need not be stored, for example all that windows see of padded images."""
    diagnostics = Diagnostics()
    if span is not None:
        advice = "make the batch smaller, or the `pad`, `stride` and `dilation` of windows"
        diagnostics.error("WG1001", str(error), span).help(advice)
    return WgError(str(error), diagnostics)


def _check_dispatch(diagnostics: Diagnostics, dispatch: Dispatch, span: Span) -> None:
    for text, advice in _problems(dispatch):
        diagnostics.error("WG1001", text, span, f"in `{dispatch.label}`").help(advice)


def _check_rounds(diagnostics: Diagnostics, entry: EntrySchedule) -> None:
    runs = sum(entry.times)
    if runs <= MAX_RUN:
        return
    most = entry.times.index(max(entry.times))
    spans = (dispatch.span for dispatch in entry.dispatches[most:])
    span = next((span for span in spans if span is not None), None)
    if span is not None:
        text = f"one call of `{entry.name}` would run {runs:,} kernels; at most {MAX_RUN:,} are run"
        advice = "let a loop take several elements in each round, or call the entry for each part"
        diagnostics.error("WG1001", text, span, "in a loop").help(advice)


def _problems(dispatch: Dispatch) -> Iterable[tuple[str, str]]:
    buffers = dispatch.launches[GPU].kernel.storage_buffers
    if buffers > MAX_BINDINGS:
        yield (
            f"this needs {buffers} tensors at once; a kernel can use {MAX_BINDINGS}",
            "compute it from fewer tensors: what two statements read is stored between them",
        )
    uniforms = len(dispatch.regions) - buffers
    if uniforms > MAX_UNIFORMS:
        yield (
            f"this is in {uniforms} loops; a kernel can use the counters of {MAX_UNIFORMS}",
            "nest fewer loops",
        )
    largest = max(region.bytes for region in dispatch.regions)
    if largest > LARGEST:
        yield (
            f"this needs {largest / MIB:.0f} MiB at once; no device lets a kernel use more than "
            f"{ceil_div(LARGEST, MIB)}",
            "make the batch or the tensor smaller",
        )
    iterations = dispatch.launches[GPU].iterations
    if iterations > MAX_ITERATIONS:
        yield (
            f"one thread of this would loop {iterations:,} times; software adapters end loops "
            f"after {MAX_ITERATIONS:,}",
            "make the axis that it loops over shorter",
        )
    grid = max(max(launch.grid) for launch in dispatch.launches.values())
    if grid > MAX_WORKGROUPS:
        yield (
            f"this needs {grid} workgroups along one axis; WebGPU runs at most {MAX_WORKGROUPS}",
            "make the batch smaller",
        )
    shared = max(launch.kernel.workgroup_bytes for launch in dispatch.launches.values())
    if shared > MAX_WORKGROUP_BYTES:
        yield (
            f"this needs {shared:,} bytes of workgroup memory; every device grants "
            f"{MAX_WORKGROUP_BYTES:,}",
            "make the last axes of the tensors smaller",
        )
