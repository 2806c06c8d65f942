"""Undoes failed calls: a copy before each submit, and the plan's test for NaN after it.

The test checks everything a training entry writes, because kernels with `max` or `min` can hide a
NaN from the loss while the parameters are already NaN. For other entries a copy is made only if
they may find an index out of range, and only of the tensors that such a call can change.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wgcc_runtime.errors import WgccError
from wgcc_runtime.machine import Machine
from wgcc_runtime.plan import WORD, Entry

# A part of a buffer: the buffer's number, the first byte, and the number of bytes.
Region = tuple[int, int, int]


class Guard:
    """Checks what one entry writes. `flag` is None if there is no test for NaN to run.

    `finite`: whether values that are not finite count as errors.
    """

    def __init__(self, machine: Machine, entry: str, finite: bool = True) -> None:
        self._machine = machine
        self._entry = entry
        spec = machine.plan.entries[entry]
        self.finite = finite
        self.flag = spec.guard.flag if spec.guard and finite else None
        self._copies = self._make_copies(_watched(machine, spec))

    @property
    def can_restore(self) -> bool:
        return self._copies is not None

    def before(self, encoder: Any) -> None:
        """Records the copy of everything that the entry may change."""
        if self.flag:
            encoder.clear_buffer(self._machine.buffers[self.flag.buffer], self.flag.offset, WORD)
        for (index, offset, size), copy in (self._copies or {}).items():
            source = self._machine.buffers[index]
            encoder.copy_buffer_to_buffer(source, offset, copy, 0, size)

    def after(self, encoder: Any) -> None:
        """Records the test, which sets `flag` to 1 if a written value is not finite."""
        if self.flag:
            self._machine.run_guard(encoder, self._entry)

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

    def _make_copies(self, watched: Iterable[Region]) -> dict[Region, Any] | None:
        try:
            return {region: self._machine.storage(region[2], "copy") for region in watched}
        except WgccError as error:
            # A model that fills the GPU's memory still trains; only failed steps cannot be undone.
            if error.code != "memory":
                raise
            return None


def _watched(machine: Machine, entry: Entry) -> Iterable[Region]:
    """Whole buffers for a training entry, which writes nearly all of them; else single tensors."""
    tensors = machine.plan.tensors
    if entry.training:
        buffers = sorted({tensors[name].buffer for name in entry.writes})
        return [(index, 0, machine.plan.buffers[index].bytes) for index in buffers]
    restored = entry.range_guard.restored if entry.range_guard else ()
    return [(tensors[n].buffer, tensors[n].offset, tensors[n].bytes) for n in restored]
