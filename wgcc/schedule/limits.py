"""WebGPU's limits, checked once kernels and buffers are known; errors name the line.

Every device grants the defaults. Of the sizes of bindings and buffers most grant more, so a bundle
may require that, with a warning that names what is larger; a runtime requests these limits when it
opens the device. A budget of GPU memory says how often to try with fewer activations in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wgcc.errors import Diagnostics, Span, WgError
from wgcc.ir.index import IndexTooLarge
from wgcc.ir.places import LARGEST, MAX_BINDING, MAX_BUFFER, MIB, ceil_div
from wgcc.ir.program import Program
from wgcc.passes.lay_out import check_buffers
from wgcc.schedule.kernel import (
    GPU,
    MAX_BINDINGS,
    MAX_ITERATIONS,
    MAX_WORKGROUP_BYTES,
    MAX_WORKGROUPS,
    WORD,
    Dispatch,
    EntrySchedule,
    Place,
    Schedule,
)

# In how many parts activations are computed, of which all but the last are rematerialised: more
# parts store less between them, and hold less at once, up to a point.
REMAT_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
# The memory that rematerialisation does not save.
UNDO = "undo"
FIXED = {
    "params": "parameters",
    "state": "state",
    "grads": "gradients",
    "copies": "f16 copies of weights",
    UNDO: "copies to undo a failed step",
}


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program after all passes, its schedule, and in how many parts its activations are."""

    program: Program
    schedule: Schedule
    remat_parts: int = 1

    @property
    def bytes(self) -> int:
        words = sum(buffer.words for buffer in self.schedule.buffers)
        return words * WORD + self.schedule.copied_bytes

    @property
    def fixed_bytes(self) -> int:
        """The bytes that rematerialisation does not save."""
        words = sum(b.words for b in self.schedule.buffers if b.role != "temp")
        return words * WORD + self.schedule.copied_bytes


def first_within(memory: int, attempts: Iterable[Lowered]) -> Lowered:
    """The first that needs no more than `memory` bytes; stops where no later one can."""
    tried: list[Lowered] = []
    for attempt in attempts:
        if attempt.bytes <= memory:
            return attempt
        tried.append(attempt)
        if attempt.fixed_bytes > memory:
            break
    raise _too_small(min(tried, key=lambda lowered: lowered.bytes), memory)


def _too_small(best: Lowered, memory: int) -> WgError:
    roles = {name: 0 for name in FIXED}
    for buffer in best.schedule.buffers:
        if buffer.role in roles:
            roles[buffer.role] += buffer.words * WORD
    roles[UNDO] = best.schedule.copied_bytes
    fixed = ", ".join(f"{FIXED[name]} {_megabytes(n)}" for name, n in roles.items() if n)
    again = " even when activations are computed again" if best.remat_parts > 1 else ""
    needed, how = best.bytes, again
    if best.fixed_bytes > memory:
        needed, how = best.fixed_bytes, " without any activations"
    return WgError(
        f"the model needs {_megabytes(needed)} of GPU memory{how}, more than the "
        f"{_megabytes(memory)} it may use ({fixed}); make the batch or the model smaller, "
        "or allow more with --memory"
    )


def _megabytes(number: int) -> str:
    return f"{number / 1e6:.3g} MB" if number < 1e9 else f"{number / 1e6:.0f} MB"


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
    """The error for a kernel that would number too many elements.

    These need not be stored: they may be all that windows see of padded images.
    """
    diagnostics = Diagnostics()
    if span is not None:
        advice = "make the batch smaller, or the `pad`, `stride` and `dilation` of windows"
        diagnostics.error("WG1001", str(error), span).help(advice)
    return WgError(str(error), diagnostics)


def _check_dispatch(diagnostics: Diagnostics, dispatch: Dispatch, span: Span) -> None:
    for text, advice in dispatch_problems(dispatch):
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


def dispatch_problems(dispatch: Dispatch) -> Iterable[tuple[str, str]]:
    """Every limit that a dispatch breaks, with what to do about it."""
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


# Values of `--limits`.
DEFAULT, RAISED = "default", "raised"
MOST_NAMED = 4
# Chromium grants 128, 256 or 512 MiB, 1 GiB, 2 GiB or 4 GiB for a binding, as the driver allows.
WHERE = (
    "most desktop GPUs grant 2 to 4 GiB, many phones 128 or 256 MiB; where a device grants less, "
    "a bundle with a twin runs as WebAssembly"
)
DECLARED, FIRST = "declared here", "first used here"
SMALLER = (
    "make the batch or the tensor smaller, or build without `--limits default`: the bundle then "
    "asks the device for more"
)


@dataclass(frozen=True, slots=True)
class Large:
    """A tensor, or what a kernel binds as one, that the default limits do not allow."""

    name: str
    bytes: int
    span: Span | None
    label: str

    def __str__(self) -> str:
        return f"`{self.name}` ({self.bytes / MIB:.0f} MiB)"


def check_raised(
    schedule: Schedule, program: Program, diagnostics: Diagnostics, limits: str = RAISED
) -> None:
    """Warns of what needs more than the default limits; with `default` raises an error."""
    large = large_tensors(schedule, program)
    if not large:
        return
    text = (
        f"{large[0]} is larger than WebGPU's default limit for a tensor, {MAX_BINDING // MIB} MiB"
    )
    shown = next((item for item in large if item.span), large[0])
    if limits == DEFAULT:
        _refuse(text, large[1:], shown)
    if shown.span is not None:
        warning = diagnostics.warning("WG1002", text, shown.span, shown.label)
        for note in _others(large[1:]):
            warning.note(note)
        warning.note(f"the bundle asks the device for {_required_limits(schedule)}: {WHERE}")
        warning.help("`--limits default` refuses models that do not run on every device")


def large_tensors(schedule: Schedule, program: Program) -> list[Large]:
    """The largest first; each once, where it is declared or else first used."""
    names = {place.bound: name for name, place in schedule.tensors.items()}
    declared = {**program.params, **program.state}
    by_place: dict[Place, Large] = {}
    for dispatch in schedule.dispatches:
        for place, shown in zip(dispatch.regions, dispatch.shows, strict=True):
            if place.bytes > MAX_BINDING:
                name = names.get(place, shown.partition(" ")[0].rstrip(","))
                span = declared[name].span if name in declared else None
                label = DECLARED if span else FIRST
                by_place.setdefault(place, Large(name, place.bytes, span or dispatch.span, label))
    return sorted(by_place.values(), key=lambda item: -item.bytes)


def _refuse(text: str, others: list[Large], shown: Large) -> None:
    if shown.span is None:
        raise WgError(f"{text}; {SMALLER}")
    diagnostics = Diagnostics()
    error = diagnostics.error("WG1001", text, shown.span, shown.label).help(SMALLER)
    for note in _others(others):
        error.note(note)
    raise WgError("the model does not fit WebGPU's default limits", diagnostics)


def _others(large: list[Large]) -> list[str]:
    if not large:
        return []
    names = ", ".join(map(str, large[:MOST_NAMED]))
    rest = len(large) - MOST_NAMED
    return [f"so are {names}" + (f" and {rest} more" if rest > 0 else "")]


def _required_limits(schedule: Schedule) -> str:
    binding = max(p.bytes for dispatch in schedule.dispatches for p in dispatch.regions)
    buffer = max(buffer.words * WORD for buffer in schedule.buffers)
    text = f"maxStorageBufferBindingSize = {binding:,}"
    return f"{text} and maxBufferSize = {buffer:,}" if buffer > MAX_BUFFER else text
