"""A loaded bundle: every entry is a method; parameters can be read, written, saved and trained."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from wgcc_runtime.arrays import Array, from_words
from wgcc_runtime.batches import check_batch
from wgcc_runtime.checkpoint import (
    Checkpoint,
    Progress,
    load_checkpoint,
    resume_checkpoint,
    save_checkpoint,
)
from wgcc_runtime.errors import WgccError, WgccWarning, did_you_mean
from wgcc_runtime.guard import Guard
from wgcc_runtime.machine import Machine
from wgcc_runtime.plan import Entry, Plan, Tensor
from wgcc_runtime.runner import NotFiniteError, Runner
from wgcc_runtime.threefry import checked_seed
from wgcc_runtime.values import OPTIMIZER, StartValues, Words, words_of

if TYPE_CHECKING:
    from wgcc_runtime.history import History
    from wgcc_runtime.timing import Profile
    from wgcc_runtime.tune import Tuning, Watch


class Model:
    """Made by `load`. `m.train(x=…, y=…)` and `m.call("train", …)` run an entry."""

    # Training steps that make a NaN are undone and raise; turn off to see where it leads.
    check_finite = True

    def __init__(
        self, machine: Machine, values: StartValues, sources: Sequence[str], seed: int | None
    ) -> None:
        self._machine = machine
        self._values = values
        self._sources = sources
        self._runners: dict[tuple[str, tuple[str, ...], bool], Runner] = {}
        self._guards: dict[str, Guard] = {}
        self.progress = Progress()
        self._seed = seed
        self._snapshot: tuple[Words, Progress] | None = None
        self._write(values.constants)
        self.reset()

    def call(self, entry: str, /, **inputs: Any) -> dict[str, Array]:
        """Runs an entry once: arrays (or numbers) in, numpy arrays out."""
        spec = self.entry(entry)
        batch = check_batch(inputs, spec)
        runner = self.runner(entry, spec.outputs)
        step = self.progress.step(entry) + 1
        try:
            (outputs,) = runner.run([batch])
        except NotFiniteError as error:
            raise error.at_step(entry, step) from None
        if spec.training:
            self.progress.steps[entry] = step
        return outputs

    def map(self, entry: str, /, **inputs: Any) -> dict[str, Array]:
        """Runs an entry over any number of rows, batch by batch, and joins the outputs.

        Arrays whose first axis is longer than the entry's are cut into batches; the last one is
        filled up with repeated rows, whose results are dropped.
        """
        from wgcc_runtime.rows import map_rows

        return map_rows(self, self.entry(entry), inputs)

    def fit(self, batches: Any, **options: Any) -> History:
        """Trains; see `wgcc_runtime.fit.fit` for the options."""
        from wgcc_runtime.fit import fit

        return fit(self, batches, **options)

    def profile(self, entry: str = "train", repeat: int = 5) -> Profile:
        """Time per kernel of an entry, on inputs of zeros, on a device of its own."""
        from wgcc_runtime.timing import profile

        return profile(self._machine, self._sources, self.entry(entry), repeat)

    def tune(self, seconds: float = 60.0, progress: Watch | None = None) -> Tuning:
        """Measures every kernel the bundle holds for a dispatch; changes nothing."""
        from wgcc_runtime.tune import tune

        return tune(self._machine, self._sources, seconds, progress)

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
    def device_name(self) -> str:
        return self._machine.device.name

    @property
    def profile_name(self) -> str:
        return self._machine.profile

    @property
    def compile_ms(self) -> float:
        """How long the driver took to make the pipelines; some do more at the first call."""
        return self._machine.compile_ms

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
        tensors = self.plan.persistent()
        if not strict:
            values = {name: value for name, value in values.items() if name in tensors}
        for name, tensor in tensors.items():
            if strict and tensor.role == "param" and name not in values:
                raise WgccError("weights", f"load_params: `{name}` is missing", name)
        self._write(words_of(values, self.plan, "load_params"))

    def reset(self, seed: int | None = None) -> None:
        """Back to the start: initial values, no steps made. A seed draws other initial values."""
        seed = checked_seed(seed)
        self._write(self._values.words(self._seed if seed is None else seed))
        self.progress = Progress()

    def reset_to_bundle(self) -> None:
        """To the values the bundle was built with, whatever weights and seed were given."""
        self._write(self._values.words(None, own=True))
        self.progress = Progress()

    def save(self, path: str | Path, optimizer: bool = True, keep_previous: bool = False) -> None:
        """Writes a safetensors file, atomically. With `optimizer` it can be resumed to the bit."""
        arrays = self._read(
            tensor
            for name, tensor in self.plan.persistent().items()
            if optimizer or not name.startswith(OPTIMIZER)
        )
        save_checkpoint(path, self.plan, arrays, self.progress, keep_previous)

    def load(
        self, path: str | Path, or_previous: bool = False, weights_only: bool = False
    ) -> Checkpoint:
        """Restores what `save` wrote, for the same model with the same kinds of optimizers.

        `or_previous` accepts the file before it if it is damaged. `weights_only` takes parameters
        and state of any model they fit; optimizers and steps start anew. What the caller should
        know is warned of (`WgccWarning`) and in the result's `notes`.
        """
        restore = resume_checkpoint if or_previous else load_checkpoint
        found = restore(path, self.plan, self._values.words(self._seed), weights_only)
        self._write(found.words)
        self.progress = found.progress
        for note in found.notes:
            warnings.warn(note, WgccWarning, stacklevel=2)
        return found

    def snapshot(self) -> None:
        """Keeps a copy of parameters and state on the host, for `recover`."""
        data = self._read_bytes(self.plan.persistent().values())
        words = {name: np.frombuffer(part, "<u4") for name, part in data.items()}
        self._snapshot = words, self.progress.copy()

    def recover(self) -> None:
        """After a lost device: opens a new one; the model is as in the last `snapshot`, or new."""
        self._machine = self._machine.on_new_device()
        self._runners, self._guards = {}, {}
        self._write(self._values.constants)
        words, progress = self._snapshot or (self._values.words(self._seed), Progress())
        self._write(words)
        self.progress = progress.copy()

    def close(self) -> None:
        """Frees the GPU memory."""
        for runner in self._runners.values():
            runner.close()
        for guard in self._guards.values():
            guard.close()
        self._runners, self._guards = {}, {}
        self._machine.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def runner(self, entry: str, outputs: Iterable[str]) -> Runner:
        """Runs the entry and reads these outputs; made once."""
        self._machine.check_open()
        key = entry, tuple(outputs), self.check_finite
        if key not in self._runners:
            guard = self._guard(entry) if self.check_finite else None
            self._runners[key] = Runner(self._machine, entry, key[1], guard)
        return self._runners[key]

    def _guard(self, entry: str) -> Guard | None:
        if entry not in self._guards and self.plan.entries[entry].training:
            self._guards[entry] = Guard(self._machine, entry)
        return self._guards.get(entry)

    def _read(self, tensors: Iterable[Tensor]) -> dict[str, Array]:
        data = self._read_bytes(tensors)
        return {name: from_words(part, self.plan.tensors[name]) for name, part in data.items()}

    def _read_bytes(self, tensors: Iterable[Tensor]) -> dict[str, memoryview]:
        """Buffer by buffer, because one long copy is cheaper than many short ones."""
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

    def _write(self, words: Words) -> None:
        for name, value in words.items():
            self._machine.write(self.plan.tensors[name], np.asarray(value, order="C"))
