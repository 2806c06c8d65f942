"""Keeps good parameters good: a copy from before each submit, and a test for NaN after it.

The test looks at the bits of everything an entry writes, because kernels with `max` or `min` hide
NaN from the loss while the parameters are already lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from wgcc_runtime.errors import WgccError
from wgcc_runtime.limits import limits_of
from wgcc_runtime.machine import Command, Machine, record_pass
from wgcc_runtime.plan import WORD, Binding, Tensor

# As many ranges as finite.wgsl takes in one dispatch.
SLOTS = 7
ACCESS = (*["read"] * SLOTS, "read_write")
NOT_NEEDED = 0x7FFFFFFF
WORDS_PER_GROUP = 64 * 64
ALIGNMENT = 256


class Guard:
    """Watches what one training entry writes."""

    def __init__(self, machine: Machine, entry: str) -> None:
        self._machine = machine
        plan = machine.plan
        written = [plan.tensors[name] for name in plan.entries[entry].writes]
        self._watched = sorted({tensor.buffer for tensor in written})
        self.flag = machine.storage(WORD, "flag")
        self._copies = self._make_copies()
        self._commands = self._tests(tensor for tensor in written if tensor.is_float)

    @property
    def can_restore(self) -> bool:
        return self._copies is not None

    def before(self, encoder: Any) -> None:
        """Records the copy of all that the entry may change."""
        encoder.clear_buffer(self.flag)
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
        for buffer in [self.flag, *(self._copies or {}).values()]:
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

    def _tests(self, tensors: Iterable[Tensor]) -> list[Command]:
        runs = _runs(tensors, limits_of(self._machine.plan)["maxStorageBufferBindingSize"])
        source = Path(__file__).with_name("finite.wgsl").read_text(encoding="utf-8")
        return [self._test(source, runs[i : i + SLOTS]) for i in range(0, len(runs), SLOTS)]

    def _test(self, source: str, runs: Sequence[Binding]) -> Command:
        # A binding starts on a boundary, so what lies before the run is skipped.
        skips = [run.offset % ALIGNMENT for run in runs]
        bindings = [
            Binding(run.buffer, run.offset - skip, run.size + skip)
            for run, skip in zip(runs, skips, strict=True)
        ]
        firsts = [skip // WORD for skip in skips]
        spare = SLOTS - len(runs)
        constants = {f"FIRST_{i}": n for i, n in enumerate([*firsts, *[NOT_NEEDED] * spare])}
        machine = self._machine
        pipeline = machine.pipeline(source, "main", ACCESS, "finite", constants)
        group = machine.group(ACCESS, [*bindings, *bindings[:1] * spare], [self.flag])
        return pipeline, group, (max(map(_groups, runs)), 1, 1)


def _groups(run: Binding) -> int:
    words = run.size // WORD
    return min(1024, -(-words // WORDS_PER_GROUP))


def _runs(tensors: Iterable[Tensor], longest: int) -> list[Binding]:
    """Neighbouring tensors as one range, so that an arena is one dispatch."""
    ordered = sorted(tensors, key=lambda tensor: (tensor.buffer, tensor.offset))
    # Where tensors are packed, what lies between two of them is other data; where each has its own
    # boundary it is padding, which is never written, so zero.
    packed = {tensor.buffer for tensor in ordered if tensor.offset % ALIGNMENT}
    runs: list[Binding] = []
    for tensor in ordered:
        last = runs[-1] if runs else Binding(-1, 0, 0)
        gap = tensor.offset - (last.offset + last.size)
        near = gap == 0 or (gap < ALIGNMENT and tensor.buffer not in packed)
        size = tensor.offset + tensor.bytes - last.offset
        if last.buffer == tensor.buffer and near and size + ALIGNMENT <= longest:
            runs[-1] = Binding(last.buffer, last.offset, size)
        else:
            runs.append(Binding(tensor.buffer, tensor.offset, tensor.bytes))
    return runs
