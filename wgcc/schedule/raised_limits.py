"""What is larger than WebGPU's default limits: a warning that names it, or an error.

Such a bundle requires larger limits, which a runtime requests when it opens the device.
"""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.errors import Diagnostics, Span, WgError
from wgcc.ir.places import MAX_BINDING, MAX_BUFFER, MIB
from wgcc.ir.program import Program
from wgcc.schedule.kernel import WORD, Place, Schedule

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
        warning.note(f"the bundle asks the device for {_required(schedule)}: {WHERE}")
        warning.help("`--limits default` refuses models that do not run on every device")


def large_tensors(schedule: Schedule, program: Program) -> list[Large]:
    """The largest first; each once, where it is declared or else first used."""
    names = {place.bound: name for name, place in schedule.tensors.items()}
    declared = {**program.params, **program.state}
    found: dict[Place, Large] = {}
    for dispatch in schedule.dispatches:
        for place, shown in zip(dispatch.regions, dispatch.shows, strict=True):
            if place.bytes > MAX_BINDING:
                name = names.get(place, shown.partition(" ")[0].rstrip(","))
                span = declared[name].span if name in declared else None
                label = DECLARED if span else FIRST
                found.setdefault(place, Large(name, place.bytes, span or dispatch.span, label))
    return sorted(found.values(), key=lambda item: -item.bytes)


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


def _required(schedule: Schedule) -> str:
    binding = max(p.bytes for dispatch in schedule.dispatches for p in dispatch.regions)
    buffer = max(buffer.words * WORD for buffer in schedule.buffers)
    text = f"maxStorageBufferBindingSize = {binding:,}"
    return f"{text} and maxBufferSize = {buffer:,}" if buffer > MAX_BUFFER else text
