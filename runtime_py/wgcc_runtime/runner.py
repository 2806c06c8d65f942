"""Runs one entry: any number of steps in one submit, results in one mapped read.

A failed call is undone: a copy is made before each submit, and the plan's test for NaN runs after
it. The test checks everything a training entry writes, because kernels with `max` or `min` can hide
a NaN from the loss while the parameters are already NaN. For other entries a copy is made only if
they may find an index out of range, and only of the tensors that such a call can change. Steps of
large models on the twin check what they will write before they write it, so nothing is copied.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array, as_bytes, from_words
from wgcc_runtime.errors import WgccError
from wgcc_runtime.machine import Machine, Memory, Results
from wgcc_runtime.plan import WORD, Entry, Tensor

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
        from wgcc_runtime.blame import blame

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


Batch = Mapping[str, Array]
# Read with the outputs; no output has a dot in its name.
RANGE_FLAG = "guard.range"
FINITE_FLAG = "guard.finite"


class Runner:
    """`submit` a few batches, do something else, `collect` their outputs."""

    def __init__(
        self, machine: Machine, entry: str, outputs: Iterable[str], guard: Guard | None
    ) -> None:
        machine.prepare(entry)
        self._machine = machine
        self._guard = guard
        self._flag = guard.flag if guard else None
        self._entry = entry
        spec = machine.plan.entries[entry]
        self._trains = spec.training
        self._inputs = dict(spec.inputs)
        self._outputs = {name: spec.outputs[name] for name in outputs}
        self._range_guard = spec.range_guard
        if spec.range_guard:
            self._outputs[RANGE_FLAG] = spec.range_guard.flag
        self._is_checked = guard is not None and guard.is_checked
        if self._is_checked and self._flag:
            self._outputs[FINITE_FLAG] = self._flag
        self._input_bytes = sum(tensor.bytes for tensor in self._inputs.values())
        self._output_bytes = sum(tensor.bytes for tensor in self._outputs.values())
        self._capacity = 0
        self._staging: Memory = None
        self._readback: Results | None = None
        self._pending: Sequence[Batch] = ()
        self._remaining = 0

    def run(self, batches: Sequence[Batch]) -> list[dict[str, Array]]:
        self.submit(batches)
        return self.collect()

    def submit(self, batches: Sequence[Batch]) -> None:
        """Starts one call per batch (words by input name), in order. Does not wait."""
        self._remaining = 0
        self._reserve(len(batches))
        with self._machine.errors(f"running `{self._entry}`"):
            encoder = self._machine.encoder()
            if self._guard:
                self._guard.before(encoder)
            self._record(encoder, batches)
            if self._guard:
                self._guard.after(encoder)
            self._record_end(encoder, len(batches))
            self._machine.submit(encoder)
        self._pending = batches

    def collect(self) -> list[dict[str, Array]]:
        """Waits, and returns the outputs of every submitted call.

        A value that is not finite, or an index out of range, undoes the call that made it and
        those after it, then raises a `CallError`.
        """
        batches, self._pending = self._pending, ()
        assert self._readback is not None
        data = self._readback.fetch(len(batches) * self._output_bytes + WORD)
        results = [self._decode(data, i) for i in range(len(batches))]
        failed = [int(result.pop(RANGE_FLAG, 0)) for result in results]
        undone = [int(result.pop(FINITE_FLAG, 0)) for result in results]
        flagged = self._flag is not None and any(data[-WORD:])
        is_bad = flagged or any(failed)
        if is_bad or (not self._is_checked and any(map(self._bad_output, results))):
            self._find_bad(batches, results, failed, undone)
        return results

    def undo(self, calls: int) -> int:
        """After `collect` failed: undoes the calls if there is a copy; returns how many remain."""
        if self._is_checked:
            return self._machine.calls_made
        if not self._trains or not self._guard or not self._guard.can_restore:
            return calls
        with contextlib.suppress(WgccError):
            self._guard.restore()
        return self._remaining

    def close(self) -> None:
        if self._readback:
            self._readback.close()
        if self._staging is not None:
            self._machine.free(self._staging)

    def _reserve(self, count: int) -> None:
        if count <= self._capacity:
            return
        self._capacity = 0  # until everything is allocated
        if self._readback:
            self._readback.close()
        self._readback = self._machine.results(count * self._output_bytes + WORD)
        if count > 1 and self._input_bytes:
            if self._staging is not None:
                self._machine.free(self._staging)
            self._staging = self._machine.storage(count * self._input_bytes, "staging")
        self._capacity = count

    def _record(self, encoder: Any, batches: Sequence[Batch]) -> None:
        if len(batches) == 1:
            for name, tensor in self._inputs.items():
                self._machine.write(tensor, batches[0][name])
        elif self._input_bytes:
            self._machine.fill(self._staging, self._pack(batches))
        for i in range(len(batches)):
            if len(batches) > 1:
                self._record_inputs(encoder, i)
            if self._guard:
                self._guard.run(encoder)
            else:
                self._machine.run(encoder, self._entry)
            self._record_outputs(encoder, i)

    def _pack(self, batches: Sequence[Batch]) -> Array:
        return np.concatenate([as_bytes(batch[name]) for batch in batches for name in self._inputs])

    def _record_inputs(self, encoder: Any, i: int) -> None:
        at = i * self._input_bytes
        for tensor in self._inputs.values():
            target = self._machine.buffers[tensor.buffer]
            encoder.copy_buffer_to_buffer(self._staging, at, target, tensor.offset, tensor.bytes)
            at += tensor.bytes

    def _record_outputs(self, encoder: Any, i: int) -> None:
        assert self._readback is not None
        at = i * self._output_bytes
        for tensor in self._outputs.values():
            source = self._machine.buffers[tensor.buffer]
            self._readback.copy(encoder, source, tensor.offset, tensor.bytes, at)
            at += tensor.bytes

    def _record_end(self, encoder: Any, count: int) -> None:
        """The last word read back is the flag, or any word: there must be something to wait for."""
        assert self._readback is not None
        buffer, offset = (self._flag.buffer, self._flag.offset) if self._flag else (0, 0)
        if self._machine.buffers:
            source = self._machine.buffers[buffer]
            self._readback.copy(encoder, source, offset, WORD, count * self._output_bytes)

    def _decode(self, data: memoryview, i: int) -> dict[str, Array]:
        results, at = {}, i * self._output_bytes
        for name, tensor in self._outputs.items():
            results[name] = from_words(data[at : at + tensor.bytes], tensor)
            at += tensor.bytes
        return results

    def _bad_output(self, results: Mapping[str, Array]) -> str | None:
        """The name of a scalar output that is not finite, if the guard checks for that."""
        for name in results if self._guard and self._guard.finite else ():
            if is_scalar(self._outputs[name]) and not math.isfinite(results[name]):
                return name
        return None

    def _find_bad(
        self,
        batches: Sequence[Batch],
        results: Sequence[Mapping[str, Array]],
        failed: Sequence[int],
        undone: Sequence[int],
    ) -> None:
        """Restores the values before the submit, and repeats the calls up to the one that fails.

        Calls that check themselves need not be repeated: the first that is undone is the one.
        """
        assert self._guard is not None
        if not self._guard.can_restore:
            flag = next(filter(None, failed), 0)
            text = self._out_of_range(flag) if flag else "a value is not finite"
            raise CallError("range" if flag else "nan", len(batches) - 1, text, restored=False)
        self._guard.restore()
        if len(batches) == 1:
            self._raise_bad(batches[0], results[0], failed[0])
        first = undone.index(1) if any(undone) else 0
        for i, batch in enumerate(batches[first:], first):
            try:
                self.run([batch])
            except CallError as error:
                raise CallError(error.code, i, error.what) from None
            except BaseException:
                self._remaining = i
                raise

    def _raise_bad(self, batch: Batch, results: Mapping[str, Array], failed: int) -> None:
        assert self._guard is not None
        if failed:
            raise CallError("range", 0, self._out_of_range(failed))
        name = self._bad_output(results)
        what = f"`{name}` is {results[name]}" if name else "a parameter or state is not finite"
        for input_name, tensor in self._inputs.items():
            self._machine.write(tensor, batch[input_name])
        where = self._guard.blame()
        raise CallError("nan", 0, f"{what}; {where}" if where else what)

    def _out_of_range(self, flag: int) -> str:
        assert self._range_guard is not None
        checks = self._range_guard.checks
        check = checks[-min(flag, len(checks))]
        return f"{check.what} is outside {check.allowed}, at {check.at}"


class CallError(WgccError):
    """Call number `index` of a submit failed; the model is as it was before that call."""

    def __init__(self, code: str, index: int, what: str, restored: bool = True) -> None:
        self.index, self.what = index, what
        after = "the model is as it was before"
        if not restored:
            after = "there was not enough memory to undo that: load the last checkpoint"
        super().__init__(code, f"{what}; {after}")

    def at_step(self, entry: Entry, step: int) -> WgccError:
        """The error that callers see: it names the training step."""
        place = f"{entry.name}, step {step}" if entry.training else entry.name
        return WgccError(self.code, f"{place}: {self.message}", entry.name)


def is_scalar(tensor: Tensor) -> bool:
    """Whether an output is one float, such as a loss."""
    return tensor.is_float and tensor.size == 1
