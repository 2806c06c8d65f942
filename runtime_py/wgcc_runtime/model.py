"""A loaded bundle: every entry is a method; parameters can be read, written, saved and trained."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wgcc_runtime.arrays import Array, from_words
from wgcc_runtime.batches import Batch, check_batch
from wgcc_runtime.checkpoint import (
    Checkpoint,
    Progress,
    load_checkpoint,
    resume_checkpoint,
    save_checkpoint,
)
from wgcc_runtime.choice import WASM
from wgcc_runtime.data import preparation as prepare
from wgcc_runtime.drawn import checked_seed
from wgcc_runtime.errors import WgccError, WgccWarning, did_you_mean
from wgcc_runtime.flight import Flight, HalfSteps, Launcher, StepsInHalves
from wgcc_runtime.interrupts import Exclusive, OneFit, OneText, check_process, is_child
from wgcc_runtime.machine import Machine
from wgcc_runtime.plan import Entry, Plan, Tensor
from wgcc_runtime.runner import Guard, Runner
from wgcc_runtime.tokens.of_model import WithTokens
from wgcc_runtime.values import OnBytes, StartValues, Words, counted, without_moments, words_of

if TYPE_CHECKING:
    from wgcc_runtime.history import History
    from wgcc_runtime.timing import Profile
    from wgcc_runtime.tune import Tuning, Watch


class Model(StepsInHalves, WithTokens):
    """Made by `load`. `m.train(x=…, y=…)` and `m.call("train", …)` run an entry.

    Threads may share a model; their calls run one after the other. After Ctrl-C, or an exception in
    a callback, it is as after the last counted step.
    """

    # A training step that gives a NaN is undone and raises; turn off to continue anyway.
    check_finite = True

    def __init__(
        self, machine: Machine, values: StartValues, seed: int | None, on_bytes: OnBytes
    ) -> None:
        self._machine = machine
        self._values = values
        self._runners: dict[tuple[str, tuple[str, ...], bool], Runner] = {}
        self._guards: dict[tuple[str, bool], Guard] = {}
        self._exclusive = Exclusive()
        self._flight: Flight | None = None
        self._halves = HalfSteps()
        self._fitting = OneFit()
        # Used by `write` and `generate`.
        self._writing = OneText()
        self._progress = Progress()
        # How people's data became the arrays that the model was trained with; see wgcc/DATA.md.
        self.preparation: prepare.Preparation | None = values.preparation
        self._seed = seed
        self._has_learned = values.has_learned
        self._snapshot: tuple[Words, Progress] | None = None
        self._write(values.constants)
        self._write(counted(values.words(seed), on_bytes), Progress())

    def call(self, entry: str, /, **inputs: Any) -> dict[str, Array]:
        """Runs an entry: arrays (or numbers) in, numpy arrays out.

        An entry that computes each row alone takes any number of rows; it runs as often as needed.
        With a `preparation`, entries that do not train take and give numbers as the data has them.
        """
        return self._with_raw_numbers(self.entry(entry), inputs, self.call_prepared)

    def call_prepared(self, entry: str, /, **inputs: Any) -> dict[str, Array]:
        """A call with inputs as the model was trained with, whatever the preparation."""
        check_process()
        spec = self.entry(entry)
        try:
            batch = check_batch(inputs, spec)
        except WgccError as error:
            if error.code != "shape":
                raise
            failure = error
        else:
            return self._call(spec, batch)
        from wgcc_runtime.rows import run_rows

        outputs = run_rows(self, spec, inputs)
        if outputs is None:
            raise failure
        return outputs

    def _call(self, entry: Entry, batch: Batch) -> dict[str, Array]:
        with self._use():
            flight = self._launch(entry.name, tuple(entry.outputs), [batch])
            self._land()
        return flight.result()[0]

    def map(self, entry: str, /, **inputs: Any) -> dict[str, Array]:
        """As a call; an entry that mixes rows, too, runs over several whole batches.

        Of those, outputs with the batch as first axis are joined, other floats averaged.
        """
        return self._with_raw_numbers(self.entry(entry), inputs, self.map_prepared)

    def map_prepared(self, entry: str, /, **inputs: Any) -> dict[str, Array]:
        """As `map`, with inputs as the model was trained with."""
        from wgcc_runtime.rows import map_rows

        return map_rows(self, self.entry(entry), inputs)

    def _with_raw_numbers(
        self, entry: Entry, inputs: dict[str, Any], run: Callable[..., dict[str, Array]]
    ) -> dict[str, Array]:
        if self.preparation is None or entry.training:
            return run(entry.name, **inputs)
        outputs = run(entry.name, **prepare.prepared_inputs(self.preparation, inputs))
        return prepare.readable_outputs(self.preparation, self.plan, entry, outputs)

    def fit(self, batches: Any, **options: Any) -> History:
        """Trains; see `wgcc_runtime.fit.fit` for the options."""
        from wgcc_runtime.fit import checked_options, fit

        with self._fitting.use():
            return fit(self, batches, **checked_options(options))

    def profile(self, entry: str = "train", repeat: int = 5) -> Profile:
        """Time per kernel of an entry, with inputs of zeros, on a separate device."""
        from wgcc_runtime.timing import profile

        return profile(self._machine, self.entry(entry), repeat)

    def tune(self, seconds: float = 60.0, progress: Watch | None = None) -> Tuning:
        """Measures every kernel the bundle holds for a dispatch; changes nothing."""
        from wgcc_runtime.tune import tune

        return tune(self._machine, seconds, progress)

    def __getattr__(self, name: str) -> Callable[..., dict[str, Array]]:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self.plan.entries:
            known = did_you_mean(name, self.plan.entries)
            raise AttributeError(f"the model has no entry `{name}`{known}")
        return lambda **inputs: self.call(name, **inputs)

    def __dir__(self) -> Iterable[str]:
        return sorted({*super().__dir__(), *self.plan.entries})

    @property
    def plan(self) -> Plan:
        return self._machine.plan

    @property
    def classes(self) -> list[str] | None:
        """The names of the classes that the model predicts, by their ids."""
        return prepare.class_names(self.preparation)

    @property
    def has_learned(self) -> bool:
        """Whether its values are trained or given, not drawn."""
        return self._has_learned or self.steps_done > 0

    @property
    def device_name(self) -> str:
        return self._machine.device.name

    @property
    def is_twin(self) -> bool:
        """Whether the WebAssembly twin runs, not a GPU."""
        return self._machine.profile == WASM

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

    def entry(self, name: str) -> Entry:
        if name not in self.plan.entries:
            near = did_you_mean(name, self.plan.entries)
            raise WgccError("name", f"the model has no entry `{name}`{near}", name)
        return self.plan.entries[name]

    def params(self) -> dict[str, Array]:
        """All parameters by name, as copies."""
        return self._read(t for t in self.plan.tensors.values() if t.role == "param")

    def state(self) -> dict[str, Array]:
        """All state by name, optimizer moments and step counters included, as copies."""
        return self._read(t for t in self.plan.tensors.values() if t.role == "state")

    def load_params(self, values: Mapping[str, Any], strict: bool = True) -> None:
        """Writes parameters (or state) by name; `strict`: all parameters, and no unknown name."""
        check_process()
        tensors = self.plan.persistent()
        if not strict:
            values = {name: value for name, value in values.items() if name in tensors}
        for name, tensor in tensors.items():
            if strict and tensor.role == "param" and name not in values:
                raise WgccError("weights", f"load_params: `{name}` is missing", name)
        self._write(words_of(values, self.plan, "load_params"))
        self._has_learned = True

    def reset(self, seed: int | None = None) -> None:
        """Resets to initial values and no steps. A seed draws other initial values."""
        check_process()
        seed = checked_seed(seed)
        self._write(self._values.words(self._seed if seed is None else seed), Progress())
        self._has_learned = self._values.has_learned

    def reset_to_bundle(self) -> None:
        """Resets to the values the bundle was built with, ignoring weights and seed of `load`."""
        self._write(self._values.words(None, own=True), Progress())

    def save(self, path: str | Path, optimizer: bool = True, keep_previous: bool = False) -> None:
        """Writes a safetensors file, atomically. With `optimizer` it can be resumed to the bit."""
        tensors = self.plan.persistent()
        with self._use():
            progress = self._progress.copy()
            wanted = (tensors if optimizer else without_moments(tensors)).values()
            arrays = self._read(wanted, copy=False)
        save_checkpoint(path, self.plan, arrays, progress, keep_previous, self.preparation)

    def load(
        self,
        path: str | Path,
        or_previous: bool = False,
        weights_only: bool = False,
        weights: str | None = None,
    ) -> Checkpoint:
        """Restores what `save` wrote, for the same model with the same kinds of optimizers.

        `or_previous` uses the previous file if this one is damaged. `weights_only` loads parameters
        and state of any model that has the same ones; optimizers and steps are reset. So does
        `weights="ema"` (or `"NAME.ema"` of the optimizer NAME), with moving averages instead of
        the parameters. Warnings (`WgccWarning`) are also in the result's `notes`.
        """
        check_process()
        restore = resume_checkpoint if or_previous else load_checkpoint
        start = self._values.words(self._seed)
        found = restore(path, self.plan, start, weights_only, weights)
        self._write(found.words, found.progress)
        self.preparation = found.preparation or self._values.names
        self._has_learned = True
        for note in found.notes:
            warnings.warn(note, WgccWarning, stacklevel=2)
        return found

    def snapshot(self) -> None:
        """Keeps a copy of parameters and state on the host, for `recover`."""
        with self._use():
            data = self._read_bytes(self.plan.persistent().values())
            words = {name: np.frombuffer(part, "<u4") for name, part in data.items()}
            self._snapshot = words, self._progress.copy()

    def recover(self) -> None:
        """After a lost device: opens a new one and restores the last `snapshot`, or resets."""
        machine = self._machine.on_new_device()
        with self._use():
            self._machine = machine
            self._runners, self._guards, self._halves = {}, {}, HalfSteps()
            self._write(self._values.constants)
            words, progress = self._snapshot or (self._values.words(self._seed), Progress())
            self._write(words, progress.copy())

    def close(self) -> None:
        """Frees the GPU memory."""
        if is_child():
            return  # the memory belongs to the parent process
        with self._exclusive.use():
            self._land()
            parts: list[Runner | Guard] = [*self._runners.values(), *self._guards.values()]
            for part in parts:
                part.close()
            self._runners, self._guards = {}, {}
            self._machine.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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

        with self._use():
            self._halves.forget()
            runner = self._runner(entry, outputs)
            runner.submit(batches)
            first = self._progress.step(entry) + 1
            self._flight = Flight(runner, spec, first, len(batches), count)
            return self._flight

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
        found: dict[str, memoryview] = {}
        for index in sorted({tensor.buffer for tensor in wanted}):
            inside = [tensor for tensor in wanted if tensor.buffer == index]
            start = min(tensor.offset for tensor in inside)
            end = max(tensor.offset + tensor.bytes for tensor in inside)
            data = memoryview(self._machine.read(index, start, end - start))
            for tensor in inside:
                at = tensor.offset - start
                found[tensor.name] = data[at : at + tensor.bytes]
        return {tensor.name: found[tensor.name] for tensor in wanted}

    def _write(self, words: Words, progress: Progress | None = None) -> None:
        """`progress`: the progress of training that belongs to these values, if it changes."""
        with self._use():
            self._halves.forget()
            for name, value in words.items():
                self._machine.write(self.plan.tensors[name], np.asarray(value, order="C"))
            self._progress = progress or self._progress
