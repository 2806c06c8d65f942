"""An open bundle: its machine and values, calls in flight, and one user of it at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array, Batch, from_words
from wgcc_runtime.choice import WASM
from wgcc_runtime.copying import Origin
from wgcc_runtime.data.preparation import Preparation
from wgcc_runtime.errors import WgccError, did_you_mean
from wgcc_runtime.flight import Flight, HalfSteps, Launcher, Progress, StepsInHalves
from wgcc_runtime.interrupts import Exclusive, OneFit, OneText, is_child
from wgcc_runtime.machine import Machine
from wgcc_runtime.plan import Entry, Plan, Tensor
from wgcc_runtime.quick_call import QuickCall
from wgcc_runtime.runner import Guard, Runner
from wgcc_runtime.values import (
    OnBytes,
    StartValues,
    Words,
    with_progress,
)


class OpenedModel(StepsInHalves):
    """Memory to read and write, and entries to run: every method of a model needs them."""

    # A training step that gives a NaN is undone and raises; turn off to continue anyway.
    check_finite = True

    def __init__(
        self,
        machine: Machine,
        values: StartValues,
        seed: int | None,
        on_bytes: OnBytes | None = None,
        origin: Origin | None = None,
    ) -> None:
        self._machine, self._origin = machine, origin
        self._values = values
        self.is_closed = False
        self._runners: dict[tuple[str, tuple[str, ...], bool], Runner] = {}
        self._guards: dict[tuple[str, bool], Guard] = {}
        self._quick: dict[str, QuickCall] = {}
        self._exclusive = Exclusive()
        self._flight: Flight | None = None
        self._halves = HalfSteps()
        self._fitting = OneFit()
        # Used by `write` and `generate`.
        self._writing = OneText()
        self._progress = Progress()
        # How people's data became the arrays that the model was trained with; see wgcc/DATA.md.
        self.preparation: Preparation | None = values.preparation
        self._seed = seed
        self._has_learned = values.has_learned
        # Parameters and state that were written by name.
        self._changed: set[str] = set()
        self._snapshot: tuple[Words, Progress] | None = None
        # Entries whose last call ended well, the latest last, with what its parts are joined to.
        self._captures: dict[str, Mapping[str, Array] | None] = {}
        self._write(values.constants)
        words = values.words(seed)
        self._write(with_progress(words, on_bytes) if on_bytes else words, Progress())
        self._unkept = values.unkept

    @property
    def plan(self) -> Plan:
        return self._machine.plan

    @property
    def device_name(self) -> str:
        return self._machine.device.name

    @property
    def is_twin(self) -> bool:
        """Whether the WebAssembly twin runs, not a GPU."""
        return self._machine.profile == WASM

    @property
    def is_fast(self) -> bool:
        """Whether numpy's BLAS computes large products of the twin: `load(fast=True)`."""
        return self._machine.device.is_fast

    @property
    def profile_name(self) -> str:
        return self._machine.profile

    @property
    def has_subgroups(self) -> bool:
        """Whether reductions use subgroup operations of the device; results have the same bits."""
        return self._machine.device.has_subgroups

    @property
    def compile_ms(self) -> float:
        """How long the driver made pipelines so far; some compile more at the first call."""
        return self._machine.compile_ms

    @property
    def progress(self) -> Progress:
        """The progress of training, including all submitted steps."""
        if self._flight:
            self._land_flight()
        return self._progress

    @property
    def steps_done(self) -> int:
        """Training steps made so far, over all entries."""
        return sum(self.progress.steps.values())

    def entry(self, name: object) -> Entry:
        if not isinstance(name, str):
            kind = type(name).__name__
            raise WgccError("name", f"the name of an entry is a str, not {kind}", "entry")
        if name not in self.plan.entries:
            near = did_you_mean(name, self.plan.entries)
            raise WgccError("name", f"the model has no entry `{name}`{near}", name)
        return self.plan.entries[name]

    def close(self) -> None:
        """Frees the GPU memory."""
        if is_child():
            return  # the memory belongs to the parent process
        with self._exclusive.use():
            self._land()
            parts: list[Runner | Guard] = [*self._runners.values(), *self._guards.values()]
            for part in parts:
                part.close()
            self._runners, self._guards, self._quick = {}, {}, {}
            self._machine.close()
            self.is_closed = True

    def runner(self, entry: str, outputs: Iterable[str]) -> Launcher:
        """Runs the entry for many batches in one submit and reads these outputs."""
        return Launcher(partial(self._launch, entry, tuple(outputs)), self._land_flight)

    @contextlib.contextmanager
    def _use(self) -> Iterator[None]:
        """One operation at a time, with signals deferred, after all submitted calls are counted."""
        with self._exclusive.use():
            self._machine.check_open()
            self._land()
            yield

    def _land_flight(self) -> None:
        with self._use():
            pass

    def _launch(
        self,
        entry: str,
        outputs: tuple[str, ...],
        batches: Sequence[Batch],
        from_data: bool = False,
    ) -> Flight:
        """Submits calls of an entry; the next use of the model waits for them."""
        spec = self.plan.entries[entry]

        def count(made: int) -> None:
            if spec.training:
                self._progress.add(entry, made, from_data)
            self._captures.pop(entry, None)
            if spec.captures and made == len(batches):
                self._captures[entry] = None

        with self._use():
            self._halves.forget()
            runner = self._runner(entry, outputs)
            runner.submit(batches)
            first = self._progress.step(entry) + 1
            self._flight = Flight(runner, spec, first, len(batches), count)
            return self._flight

    def _call_quickly(self, entry: str, inputs: Mapping[str, Any]) -> dict[str, Array] | None:
        """The outputs of a call that needs no more than that; None if this one does."""
        if entry not in self._quick:
            return None
        with self._exclusive.use():
            if self._flight or self._halves.entry or entry not in self._quick:
                return None
            self._halves.forget()
            return self._quick[entry](inputs)

    def _find_quick(self, entry: Entry) -> None:
        """Makes later calls of the entry quick, if it takes only microseconds."""
        quick = self._machine.quick(entry.name)
        if quick:
            self._quick[entry.name] = quick

    def _land(self) -> None:
        if self._flight:
            self._flight.land()
            self._flight = None
        self._halves.drop()

    def _runner(self, entry: str, outputs: tuple[str, ...]) -> Runner:
        key = entry, outputs, self.check_finite
        if key not in self._runners:
            self._runners[key] = Runner(self._machine, entry, outputs, self._guard(entry))
        return self._runners[key]

    def _guard(self, entry: str) -> Guard | None:
        spec = self.plan.entries[entry]
        finite = spec.training and self.check_finite
        if not finite and not spec.range_guard:
            return None
        if (entry, finite) not in self._guards:
            self._guards[entry, finite] = Guard(self._machine, entry, finite)
        return self._guards[entry, finite]

    def _read(self, tensors: Iterable[Tensor], copy: bool = True) -> dict[str, Array]:
        with self._use():
            data = self._read_bytes(tensors)
        known = self.plan.tensors
        return {name: from_words(part, known[name], copy) for name, part in data.items()}

    def _read_bytes(self, tensors: Iterable[Tensor]) -> dict[str, memoryview]:
        """Buffer by buffer, because one long copy is faster than many short ones."""
        wanted = list(tensors)
        views: dict[str, memoryview] = {}
        for index in sorted({tensor.buffer for tensor in wanted}):
            inside = [tensor for tensor in wanted if tensor.buffer == index]
            start = min(tensor.offset for tensor in inside)
            end = max(tensor.offset + tensor.bytes for tensor in inside)
            data = memoryview(self._machine.read(index, start, end - start))
            for tensor in inside:
                at = tensor.offset - start
                views[tensor.name] = data[at : at + tensor.bytes]
        return {tensor.name: views[tensor.name] for tensor in wanted}

    def _write(self, words: Words, progress: Progress | None = None) -> None:
        """`progress`: the progress of training that belongs to these values, if it changes."""
        with self._use():
            self._halves.forget()
            for name, value in words.items():
                self._machine.write(self.plan.tensors[name], np.asarray(value, order="C"))
            self._progress = progress or self._progress
