"""Finds the kernel that wrote the first NaN of a step, by running one at a time."""

from __future__ import annotations

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.machine import Machine
from wgcc_runtime.plan import WORD, Binding, Dispatch, Tensor
from wgcc_runtime.plan_parts import Rounds, run_order

# Infinities, and the NaNs that arithmetic gives. Other NaN patterns are left out on purpose: small
# negative integers look like them, and the plan does not say which temporaries hold floats.
BAD_WORDS = np.array([0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000], np.uint32)


def blame(machine: Machine, entry: str) -> str:
    """Locates the first bad value: a sentence with tensor, kernel and source line, or "".

    Runs the entry once with the current inputs and parameters, and so may change them.
    """
    name = _bad_before(machine, entry)
    if name:
        return f"`{name}` was not finite before the step"
    _clear_temporaries(machine)
    dispatches = machine.plan.dispatches(entry, machine.profile)
    for number, rounds in run_order(machine.plan.entries[entry]):
        dispatch = dispatches[number]
        encoder = machine.encoder()
        machine.run_dispatch(encoder, entry, number)
        machine.submit(encoder)
        access = machine.plan.kernels[dispatch.kernel].access
        for binding, how in zip(dispatch.bindings, access, strict=True):
            if how == "read_write":
                bad = _first_bad(machine, entry, binding)
                if bad is not None:
                    where = _describe(machine, entry, dispatch, bad, binding.buffer)
                    return f"it first appears in {where}{_in_round(rounds)}"
    return ""


def _bad_before(machine: Machine, entry: str) -> str:
    """The first parameter, state or input that is already not finite and must be, or ""."""
    plan = machine.plan
    for tensor in (*plan.persistent().values(), *plan.entries[entry].inputs.values()):
        if tensor.is_float and not tensor.any_float:
            data = machine.read(tensor.buffer, tensor.offset, tensor.bytes)
            if not np.isfinite(np.frombuffer(data, "<f4")).all():
                return tensor.name
    return ""


def _clear_temporaries(machine: Machine) -> None:
    """Otherwise values that the failed step left would be blamed on the first kernel."""
    encoder = machine.encoder()
    for spec, buffer in zip(machine.plan.buffers, machine.buffers, strict=True):
        if spec.role in ("temp", "grads", "output"):
            encoder.clear_buffer(buffer)
    machine.submit(encoder)


def _first_bad(machine: Machine, entry: str, binding: Binding) -> int | None:
    """The offset in its buffer of the first bad word that is not of a tensor of integers."""
    words: Array = np.frombuffer(machine.read(binding.buffer, binding.offset, binding.size), "<u4")
    offsets = binding.offset + WORD * np.flatnonzero(np.isin(words, BAD_WORDS))
    integers = [t for t in _own(machine, entry, binding.buffer) if not t.is_float]
    for offset in offsets.tolist():
        if not any(_holds(tensor, offset) for tensor in integers):
            return int(offset)
    return None


def _own(machine: Machine, entry: str, buffer: int) -> list[Tensor]:
    """Outputs of other entries may share this memory; they are not meant here."""
    plan = machine.plan
    own = [*plan.persistent().values(), *plan.entries[entry].outputs.values()]
    return [tensor for tensor in own if tensor.buffer == buffer]


def _holds(tensor: Tensor, offset: int) -> bool:
    return 0 <= offset - tensor.offset < tensor.bytes


def _describe(machine: Machine, entry: str, dispatch: Dispatch, offset: int, buffer: int) -> str:
    plan = machine.plan
    kernel = plan.kernels[dispatch.kernel].name
    names = [t.name for t in _own(machine, entry, buffer) if _holds(t, offset)]
    what = f"`{names[0]}`" if names else f"`{dispatch.label}`" if dispatch.label else "a temporary"
    place = f", {dispatch.at}" if dispatch.at else ""
    return f"{what} (kernel {kernel}{place})"


def _in_round(rounds: Rounds) -> str:
    """Says in which round of the loops around it a dispatch ran, innermost first."""
    texts = [f"round {done} of {count}" for done, count in reversed(rounds)]
    return f", in {' in '.join(texts)}" if texts else ""
