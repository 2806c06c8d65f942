"""Undoes failed calls, and finds the kernel that made the first NaN.

A copy is made before each submit, and the plan's test for NaN runs after it. The test checks
everything a training entry writes, because kernels with `max` or `min` can hide a NaN from the loss
while the parameters are already NaN. For other entries a copy is made only if they may find an
index out of range, and only of the tensors that such a call can change. Which kernel wrote the
first NaN is found by running one at a time.

Steps of large models on the twin check what they will write before they write it, so nothing is
copied but to find such a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.errors import WgccError
from wgcc_runtime.machine import Machine
from wgcc_runtime.plan import WORD, Binding, Dispatch, Entry, Tensor
from wgcc_runtime.plan_parts import Rounds, run_order

# A part of a buffer: the buffer's number, the first byte, and the number of bytes.
Region = tuple[int, int, int]


class Guard:
    """Checks what one entry writes. `flag` is None if there is no test for NaN to run.

    `finite`: whether values that are not finite count as errors. `is_checked`: steps check that
    themselves, before they change anything.
    """

    def __init__(
        self, machine: Machine, entry: str, finite: bool = True, in_halves: bool = False
    ) -> None:
        """`in_halves`: for steps of which somebody else makes the second half."""
        self._machine = machine
        self._entry = entry
        spec = machine.plan.entries[entry]
        self.finite = finite
        self.flag = spec.guard.flag if spec.guard and finite else None
        self.is_checked = finite and not in_halves and machine.checks(entry)
        self._copies: dict[Region, Any] | None = {}
        if not self.is_checked:
            self._copies = self._make_copies()

    @property
    def can_restore(self) -> bool:
        return self._copies is not None

    def run(self, encoder: Any) -> None:
        """Records one call of the entry."""
        if self.is_checked:
            self._machine.run_checked(encoder, self._entry)
        else:
            self._machine.run(encoder, self._entry)

    def before(self, encoder: Any) -> None:
        """Records the copy of everything that the entry may change."""
        if self.flag:
            encoder.clear_buffer(self._machine.buffers[self.flag.buffer], self.flag.offset, WORD)
        for (index, offset, size), copy in (self._copies or {}).items():
            source = self._machine.buffers[index]
            encoder.copy_buffer_to_buffer(source, offset, copy, 0, size)

    def after(self, encoder: Any) -> None:
        """Records the test, which sets `flag` to 1 if a written value is not finite."""
        if self.flag and not self.is_checked:
            self._machine.run_guard(encoder, self._entry)

    def blame(self) -> str:
        """Says where the first bad value appears: calls with the current inputs, and undoes that.

        "" if there is no memory for copies of what the call changes.
        """
        if not self.is_checked:
            where = blame(self._machine, self._entry)
            self.restore()
            return where
        copies = Guard(self._machine, self._entry, self.finite, in_halves=True)
        try:
            if not copies.can_restore:
                return ""
            encoder = self._machine.encoder()
            copies.before(encoder)
            self._machine.submit(encoder)
            return copies.blame()
        finally:
            copies.close()

    def restore(self) -> None:
        """Restores the last copy."""
        encoder = self._machine.encoder()
        for (index, offset, size), copy in (self._copies or {}).items():
            target = self._machine.buffers[index]
            encoder.copy_buffer_to_buffer(copy, 0, target, offset, size)
        self._machine.submit(encoder)
        self._machine.weights_changed()

    def close(self) -> None:
        for buffer in (self._copies or {}).values():
            self._machine.free(buffer)

    def _make_copies(self) -> dict[Region, Any] | None:
        watched = _watched_regions(self._machine, self._machine.plan.entries[self._entry])
        try:
            return {region: self._machine.storage(region[2], "copy") for region in watched}
        except WgccError as error:
            # A model that fills the GPU's memory still trains; only failed steps cannot be undone.
            if error.code != "memory":
                raise
            return None


def _watched_regions(machine: Machine, entry: Entry) -> Iterable[Region]:
    """Whole buffers for a training entry, which writes nearly all of them; else single tensors."""
    tensors = machine.plan.tensors
    if entry.training:
        buffers = sorted({tensors[name].buffer for name in entry.writes})
        return [(index, 0, machine.plan.buffers[index].bytes) for index in buffers]
    restored = entry.range_guard.restored if entry.range_guard else ()
    return [(tensors[n].buffer, tensors[n].offset, tensors[n].bytes) for n in restored]


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
