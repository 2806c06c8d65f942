"""Calls in flight: submitted to the GPU, and not yet counted; and steps in two phases.

A step in two phases gives gradients, which others may average, and then updates with them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array, as_array, check_batch
from wgcc_runtime.errors import WgccError
from wgcc_runtime.gradients import Gradients, with_names
from wgcc_runtime.interrupts import Exclusive
from wgcc_runtime.machine import GRADIENTS, UPDATE, Machine
from wgcc_runtime.plan import WORD, Entry, Plan, Tensor
from wgcc_runtime.plan_parts import Exchange
from wgcc_runtime.runner import Batch, CallError, Guard, Runner

Outputs = list[dict[str, Array]]


class Flight:
    """One submit of an entry. The next use of the model lands it, so that all calls are counted."""

    def __init__(
        self, runner: Runner, entry: Entry, first: int, calls: int, count: Callable[[int], None]
    ) -> None:
        """`first` is the number of the first call; `count` is called with how many succeeded."""
        self._runner, self._entry, self._first = runner, entry, first
        self._calls, self._count = calls, count
        self._outputs: Outputs = []
        self._failure: BaseException | None = None
        self.has_landed = False

    def land(self) -> None:
        """Waits for the results and counts the calls. An error is kept for `result` to raise."""
        self.has_landed = True
        made = self._calls
        try:
            self._outputs = self._runner.collect()
        except CallError as error:
            made = error.index
            self._failure = error.at_step(self._entry, self._first + made)
        except BaseException as error:
            made = 0 if _is_lost(error) else self._runner.undo(made)
            self._failure = error
        self._count(made)

    def result(self) -> Outputs:
        """The outputs of each call, after landing."""
        if self._failure:
            raise self._failure
        return self._outputs


class Launcher:
    """Calls one entry of a model, several times in one submit."""

    def __init__(
        self, launch: Callable[[Sequence[Batch], bool], Flight], land: Callable[[], None]
    ) -> None:
        self._launch, self._land = launch, land

    def start(self, batches: Sequence[Batch], from_data: bool = False) -> Flight:
        """Does not wait. `from_data`: the batches are the next ones of the training's data."""
        return self._launch(batches, from_data)

    def finish(self, flight: Flight) -> Outputs:
        if not flight.has_landed:
            self._land()
        return flight.result()

    def run(self, batches: Sequence[Batch]) -> Outputs:
        return self.finish(self.start(batches))


def _is_lost(error: BaseException) -> bool:
    return isinstance(error, WgccError) and error.code == "device-lost"


# State that is read with the outputs, in whose names there is no colon.
STATE = "state:"
NOTHING = np.zeros(0, np.float32)


class HalvesRunner(Runner):
    """`gradients` of a batch, then `update` with these or other gradients, then `collect`."""

    def __init__(self, machine: Machine, entry: Entry, guard: Guard) -> None:
        super().__init__(machine, entry.name, entry.outputs, guard)
        self.entry = entry
        self._copies = guard
        self._batch: Batch = {}
        exchange = exchange_of(entry)
        self._regions = [_tensor(i, *region) for i, region in enumerate(exchange.gradients)]
        self._state = [f"{STATE}{name}" for name in exchange.state]
        for key, name in zip(self._state, exchange.state, strict=True):
            self._outputs[key] = machine.plan.tensors[name]
            self._output_bytes += self._outputs[key].bytes
        self.averaged_state = NOTHING

    @property
    def length(self) -> int:
        """How many numbers the gradients are."""
        return sum(tensor.size for tensor in self._regions)

    def gradients(self, batch: Batch) -> Array:
        self._batch = batch
        self._reserve(1)
        with self._machine.errors(f"gradients of `{self._entry}`"):
            encoder = self._machine.encoder()
            self._copies.before(encoder)
            for name, tensor in self._inputs.items():
                self._machine.write(tensor, batch[name])
            self._machine.run_half(encoder, self._entry, GRADIENTS)
            self._machine.submit(encoder)
            return self._read()

    def _read(self) -> Array:
        parts = [self._machine.read(t.buffer, t.offset, t.bytes) for t in self._regions]
        return _join([np.frombuffer(part, "<f4") for part in parts])

    def update(self, flat: Array) -> None:
        """Starts the second half; `collect` waits for it."""
        with self._machine.errors(f"updates of `{self._entry}`"):
            at = 0
            for tensor in self._regions:
                self._machine.write(tensor, flat[at : at + tensor.size].view("<u4"))
                at += tensor.size
            encoder = self._machine.encoder()
            self._machine.run_half(encoder, self._entry, UPDATE)
            self._record_outputs(encoder, 0)
            self._copies.after(encoder)
            self._record_end(encoder, 1)
            self._machine.submit(encoder)
        self._pending = [self._batch]

    def collect(self) -> list[dict[str, Array]]:
        """The outputs; `averaged_state` has the state that workers average, as one array."""
        results = super().collect()
        self.averaged_state = _join([results[0].pop(key).reshape(-1) for key in self._state])
        return results

    def restore(self) -> None:
        """Undoes the step, or its first half."""
        if not self._copies.can_restore:
            text = "there was not enough memory to undo a step: load the last checkpoint"
            raise WgccError("memory", text)
        self._copies.restore()

    def check(self, gradients: Any) -> Array:
        """The gradients for `update` as a caller passed them."""
        flat = as_array(gradients, "gradients")
        if flat.dtype != np.float32 or flat.shape != (self.length,):
            actual = f"{flat.dtype} of shape {list(flat.shape)}"
            text = f"the gradients of `{self._entry}` are {self.length:,} f32, not {actual}"
            raise WgccError("shape", text, "gradients")
        return np.ascontiguousarray(flat, "<f4")


def exchange_of(entry: Entry) -> Exchange:
    """The plan's record for exchanging gradients; raises an error that says why there is none."""
    if not entry.training:
        text = f"the entry `{entry.name}` does not train: it updates no parameter by a gradient"
        raise WgccError("name", text, entry.name)
    if entry.exchange is None:
        text = "the bundle was built by a wgcc that could not separate gradients: build it again"
        raise WgccError("exchange", text, entry.name)
    if entry.exchange.why:
        text = f"the gradients of `{entry.name}` cannot be exchanged: {entry.exchange.why}"
        raise WgccError("exchange", text, entry.name)
    return entry.exchange


def _join(parts: Sequence[Array]) -> Array:
    """Joins the parts to one array of f32."""
    if len(parts) == 1:
        return parts[0].astype(np.float32, copy=False)
    return np.concatenate(parts, dtype=np.float32) if parts else NOTHING


def _tensor(number: int, buffer: int, offset: int, size: int) -> Tensor:
    shape = (size // WORD,)
    return Tensor(f"gradients[{number}]", "f32", shape, buffer, offset, "grads", False, {})


class HalfSteps:
    """Which step of a model is half done, and which can still be undone."""

    def __init__(self) -> None:
        self._runners: dict[tuple[str, bool], HalvesRunner] = {}
        self._half: HalvesRunner | None = None
        self._last: HalvesRunner | None = None

    def start(self, machine: Machine, entry: Entry, guard: Guard | None, batch: Batch) -> Array:
        """Without `guard`, values that are not finite are no error."""
        key = entry.name, guard is not None and guard.finite
        if key not in self._runners:
            copies = guard if guard and not guard.is_checked else None
            copies = copies or Guard(machine, entry.name, guard is not None, in_halves=True)
            self._runners[key] = HalvesRunner(machine, entry, copies)
        self._half, self._last = self._runners[key], None
        return self._half.gradients(batch)

    def finish(self, gradients: Any, progress: Progress) -> dict[str, Array]:
        half = self._half
        if half is None:
            raise WgccError("order", "`apply` needs a call of `gradients` directly before it")
        flat = half.check(gradients)
        self._half, name = None, half.entry.name
        half.update(flat)
        step = progress.step(name) + 1
        flight = Flight(half, half.entry, step, 1, lambda made: progress.add(name, made, False))
        flight.land()
        (outputs,) = flight.result()
        self._last = half
        return outputs

    @property
    def entry(self) -> str:
        """The entry of the step that is half done; "" if there is none."""
        return self._half.entry.name if self._half else ""

    @property
    def averaged_state(self) -> Array:
        """The state that workers average, as one array; `finish` sets it."""
        return self._last.averaged_state if self._last else NOTHING

    def drop(self) -> None:
        """Undoes the first half of a step that has no second."""
        if self._half:
            half, self._half = self._half, None
            half.restore()

    def undo(self, progress: Progress) -> None:
        if self._last is None:
            raise WgccError("order", "`undo` needs a call of `apply` directly before it")
        self._last.restore()
        progress.add(self._last.entry.name, -1, False)
        self._last = None

    def forget(self) -> None:
        """The last step cannot be undone any more, because something else has changed values."""
        self._last = None


class StepsInHalves(ABC):
    """The methods of a model that make training steps in two halves."""

    _machine: Machine
    _exclusive: Exclusive
    _progress: Progress
    _halves: HalfSteps
    _captures: dict[str, Mapping[str, Array] | None]

    @abstractmethod
    def entry(self, name: str) -> Entry: ...

    @abstractmethod
    def _use(self) -> AbstractContextManager[None]: ...

    @abstractmethod
    def _guard(self, entry: str) -> Guard | None: ...

    @property
    @abstractmethod
    def plan(self) -> Plan: ...

    def gradients(
        self, batch: Mapping[str, Any] | None = None, entry: str = "train", **inputs: Any
    ) -> Gradients:
        """The first half of a training step: the gradients of all parameters as one f32 array.

        The inputs are a dict, or named. `gradients["l1.w"]` is the part of one parameter. `apply`
        makes the second half, also with other gradients. Any other use undoes the first.
        """
        spec = self.entry(entry)
        exchange_of(spec)
        if batch is not None and inputs:
            raise WgccError("data", f"{entry}: inputs are a dict or named, not both")
        words = check_batch(inputs if batch is None else batch, spec)
        return with_names(self._gradients(spec, words), self.plan, spec)

    def _gradients(self, entry: Entry, words: Batch) -> Array:
        """The gradients of a batch that is checked already."""
        with self._use():
            return self._halves.start(self._machine, entry, self._guard(entry.name), words)

    def apply(self, gradients: Any) -> dict[str, Array]:
        """The second half of a training step: clipping, schedule, update; returns the outputs."""
        with self._exclusive.use():
            self._machine.check_open()
            name = self._halves.entry
            self._captures.pop(name, None)
            outputs = self._halves.finish(gradients, self._progress)
            if self.plan.entries[name].captures:
                self._captures[name] = None
            return outputs

    def undo(self) -> None:
        """Undoes the last `apply`, if nothing has changed the model since then."""
        with self._use():
            self._halves.undo(self._progress)


@dataclass(slots=True)
class Progress:
    """The progress of training: calls per training entry, batches taken, the shuffle's seed."""

    steps: dict[str, int] = field(default_factory=dict)
    position: int = 0
    seed: int = 0

    def step(self, entry: str) -> int:
        return self.steps.get(entry, 0)

    def add(self, entry: str, steps: int, from_data: bool) -> None:
        self.steps[entry] = self.step(entry) + steps
        self.position += steps if from_data else 0

    def copy(self) -> Progress:
        return Progress(dict(self.steps), self.position, self.seed)
