"""Keeps good parameters good: a copy from before each submit, and the plan's test for NaN after it.

The test looks at everything an entry writes, because kernels with `max` or `min` hide NaN from the
loss while the parameters are already lost.
"""

from __future__ import annotations

from typing import Any

from wgcc_runtime.errors import WgccError
from wgcc_runtime.machine import Machine, record_pass
from wgcc_runtime.plan import WORD


class Guard:
    """Watches what one training entry writes. `flag` is None where the plan has no test of it."""

    def __init__(self, machine: Machine, entry: str) -> None:
        self._machine = machine
        plan = machine.plan
        spec = plan.entries[entry]
        self._watched = sorted({plan.tensors[name].buffer for name in spec.writes})
        self.flag = spec.guard.flag if spec.guard else None
        self._commands = machine.guard_commands(entry)
        self._copies = self._make_copies()

    @property
    def can_restore(self) -> bool:
        return self._copies is not None

    def before(self, encoder: Any) -> None:
        """Records the copy of all that the entry may change."""
        if self.flag:
            encoder.clear_buffer(self._machine.buffers[self.flag.buffer], self.flag.offset, WORD)
        for index, copy in (self._copies or {}).items():
            source = self._machine.buffers[index]
            encoder.copy_buffer_to_buffer(source, 0, copy, 0, copy.size)

    def after(self, encoder: Any) -> None:
        """Records the test; `flag` is then 1 when something written is not finite."""
        if self._commands:
            record_pass(encoder, self._commands)

    def restore(self) -> None:
        """Puts back the copy that was made last."""
        encoder = self._machine.encoder()
        for index, copy in (self._copies or {}).items():
            target = self._machine.buffers[index]
            encoder.copy_buffer_to_buffer(copy, 0, target, 0, copy.size)
        self._machine.submit(encoder)

    def close(self) -> None:
        for buffer in (self._copies or {}).values():
            buffer.destroy()

    def _make_copies(self) -> dict[int, Any] | None:
        machine = self._machine
        try:
            return {i: machine.storage(machine.buffers[i].size, "copy") for i in self._watched}
        except WgccError as error:
            # A model that fills the GPU's memory still trains; it only cannot go back by itself.
            if error.code != "memory":
                raise
            return None
