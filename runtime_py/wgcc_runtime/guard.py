"""Keeps good values good: a copy from before each submit, and the plan's test for NaN after it.

The test looks at everything a training entry writes, because kernels with `max` or `min` hide NaN
from the loss while the parameters are already lost. Other entries are copied for if they may find
an index out of range, and then only what such a call can have changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wgcc_runtime.errors import WgccError
from wgcc_runtime.machine import Machine, record_pass
from wgcc_runtime.plan import WORD, Entry

# Of a buffer: which one, the first byte, and how many.
Region = tuple[int, int, int]


class Guard:
    """Watches what one entry writes. `flag` is None where there is no test for NaN to run.

    `finite`: whether values that are not finite count as errors.
    """

    def __init__(self, machine: Machine, entry: str, finite: bool = True) -> None:
        self._machine = machine
        spec = machine.plan.entries[entry]
        self.finite = finite
        self.flag = spec.guard.flag if spec.guard and finite else None
        self._commands = machine.guard_commands(entry) if finite else []
        self._copies = self._make_copies(_watched(machine, spec))

    @property
    def can_restore(self) -> bool:
        return self._copies is not None

    def before(self, encoder: Any) -> None:
        """Records the copy of all that the entry may change."""
        if self.flag:
            encoder.clear_buffer(self._machine.buffers[self.flag.buffer], self.flag.offset, WORD)
        for (index, offset, size), copy in (self._copies or {}).items():
            source = self._machine.buffers[index]
            encoder.copy_buffer_to_buffer(source, offset, copy, 0, size)

    def after(self, encoder: Any) -> None:
        """Records the test; `flag` is then 1 when something written is not finite."""
        if self._commands:
            record_pass(encoder, self._commands)

    def restore(self) -> None:
        """Puts back the copy that was made last."""
        encoder = self._machine.encoder()
        for (index, offset, size), copy in (self._copies or {}).items():
            target = self._machine.buffers[index]
            encoder.copy_buffer_to_buffer(copy, 0, target, offset, size)
        self._machine.submit(encoder)

    def close(self) -> None:
        for buffer in (self._copies or {}).values():
            buffer.destroy()

    def _make_copies(self, watched: Iterable[Region]) -> dict[Region, Any] | None:
        try:
            return {region: self._machine.storage(region[2], "copy") for region in watched}
        except WgccError as error:
            # A model that fills the GPU's memory still trains; it only cannot go back by itself.
            if error.code != "memory":
                raise
            return None


def _watched(machine: Machine, entry: Entry) -> Iterable[Region]:
    """Whole buffers for a training entry, which writes nearly all of them; else single tensors."""
    tensors = machine.plan.tensors
    if entry.training:
        buffers = sorted({tensors[name].buffer for name in entry.writes})
        return [(index, 0, machine.buffers[index].size) for index in buffers]
    restored = entry.range_guard.restored if entry.range_guard else ()
    return [(tensors[n].buffer, tensors[n].offset, tensors[n].bytes) for n in restored]
