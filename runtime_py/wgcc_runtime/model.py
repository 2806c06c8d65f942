"""A loaded bundle: every entry is a method; parameters can be read, written, saved and trained."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wgcc_runtime.adapters import WithAdapters
from wgcc_runtime.arrays import Array, Batch, check_batch
from wgcc_runtime.checkpoint import Checkpoint, load_checkpoint, resume_checkpoint, save_checkpoint
from wgcc_runtime.data import preparation as prepare
from wgcc_runtime.drawn import checked_seed
from wgcc_runtime.entry_method import EntryMethod
from wgcc_runtime.errors import (
    WgccError,
    WgccWarning,
    did_you_mean,
    without_own_frames,
)
from wgcc_runtime.flight import HalfSteps, Progress
from wgcc_runtime.interrupts import check_process
from wgcc_runtime.left_out import left_out
from wgcc_runtime.opened_model import OpenedModel
from wgcc_runtime.plan import Entry, Plan, Tensor
from wgcc_runtime.tokens.of_model import WithTokens
from wgcc_runtime.values import DrawnWords, Words, without_moments, words_of

if TYPE_CHECKING:
    from wgcc_runtime.captured import Captured
    from wgcc_runtime.history import History, Report
    from wgcc_runtime.parameters import Parameters
    from wgcc_runtime.timing import Profile
    from wgcc_runtime.tune import Tuning, Watch


class Model(OpenedModel, WithTokens, WithAdapters):
    """Made by `load`. `m.train(x=…, y=…)` and `m.call("train", …)` run an entry.

    Threads may share a model; their calls run one after the other. After Ctrl-C, or an exception in
    a callback, it is as after the last counted step.
    """

    def call(self, entry: str, /, **inputs: Any) -> dict[str, Array]:
        """Runs an entry: arrays (or numbers) in, numpy arrays out.

        An entry that computes each row alone takes any number of rows; it runs as often as needed.
        With a `preparation`, entries that do not train take and give numbers as the data has them.
        """
        if self.preparation is None:
            return self.call_prepared(entry, **inputs)
        return self._with_raw_numbers(self.entry(entry), inputs, self.call_prepared)

    def call_prepared(self, entry: str, /, **inputs: Any) -> dict[str, Array]:
        """A call with inputs as the model was trained with, whatever the preparation."""
        outputs = self._call_quickly(entry, inputs)
        if outputs is not None:
            return outputs
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
            self._find_quick(entry)
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

    def fit(
        self,
        batches: Any,
        y: Any = None,
        *,
        steps: int | None = None,
        epochs: int | None = None,
        every: int = 10,
        validation: Any = None,
        eval: Any = None,
        eval_every: int | None = None,
        patience: int | None = None,
        callbacks: Sequence[Callable[[Report], Any]] = (),
        progress: bool | None = None,
        partial: str | None = None,
        log: str | Path | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int | None = None,
        resume: bool | str | Path = False,
        entry: str = "train",
        seed: int | None = None,
        stop: Callable[[], bool] | None = None,
        recover: bool = False,
        **unknown: Any,
    ) -> History:
        """Trains an entry and returns what was reported. The README says more of each option.

        `batches`: what `read_data` returns, a dict of arrays (rows are shuffled by `seed`), an
        iterable of dicts or tuples, such as a data loader, or a function of the step's number.
        `fit(X, y)`: arrays, frames or tensors for an entry with one input and one target.
        `steps`: how many more; with `resume`, in all. `epochs`: instead, passes over the data.
        `partial`: "drop" leaves out rows after the last full batch, "fill" repeats them.
        `eval`, `validation`: a function of the model, or data for the entry `eval`, as a dict or
        `(X, y)`; `validation=0.2` holds so many rows out; each `eval_every` steps.
        `patience`: ends after so many evaluations (or reports) without a lower loss, at the lowest.
        `callbacks`: called with each `Report`; "stop" ends the training. `stop`: after each submit.
        `progress`: a line on stderr; None: on a terminal and in a notebook.
        `checkpoint`: where to save; `resume` continues from there, or from the file it names.
        `recover`: after a lost device, continue on a new one from a copy (not with an iterator).
        """
        given = locals()
        from wgcc_runtime.fit import Options, fit, refuse_unknown

        refuse_unknown(unknown)
        options = Options(**{name: given[name] for name in Options.__dataclass_fields__})
        try:
            with self._fitting.use():
                return fit(self, batches, y, options)
        except WgccError as error:
            raise without_own_frames(error) from error.__cause__

    def profile(self, entry: str = "train", repeat: int = 5) -> Profile:
        """Time per kernel of an entry, with inputs of zeros, on a separate device."""
        from wgcc_runtime.timing import profile

        return profile(self._machine, self.entry(entry), repeat)

    def tune(self, seconds: float = 60.0, progress: Watch | None = None) -> Tuning:
        """Measures every kernel the bundle holds for a dispatch; changes nothing."""
        from wgcc_runtime.tune import tune

        return tune(self._machine, seconds, progress)

    def __getattr__(self, name: str) -> EntryMethod:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self.plan.entries:
            known = did_you_mean(name, self.plan.entries)
            raise AttributeError(f"the model has no entry `{name}`{known}")
        return EntryMethod(self.plan.entries[name], self.call)

    def __dir__(self) -> Iterable[str]:
        own = (name for name in super().__dir__() if not name.startswith("_"))
        return sorted({*own, *self.plan.entries})

    def __repr__(self) -> str:
        from wgcc_runtime.summary import one_line

        return one_line(self)

    def _repr_html_(self) -> str:
        from wgcc_runtime.summary import summary_html

        return summary_html(self)

    def __rich__(self) -> Any:
        from wgcc_runtime.summary import summary_rich

        return summary_rich(self)

    def summary(self) -> str:
        """Entries with their shapes, parameters by layer, bytes, dispatches and the device."""
        from wgcc_runtime.summary import summary_text

        return summary_text(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """For `pickle` and `copy`: the copy has the same values, and memory of its own."""
        from wgcc_runtime.copying import open_copy

        if self._origin is None:
            raise TypeError("this model cannot be copied: it was not opened by `load`")
        words, progress = self.values_now(complete=True)
        origin, given = self._origin.copy(self.plan), dict(self._values.given)
        arguments = type(self), origin, given, self._seed, words, progress
        return open_copy, arguments, self._copied_attributes()

    def _copied_attributes(self) -> dict[str, Any]:
        own = {"preparation": self.preparation, "check_finite": self.check_finite}
        return {**own, "_has_learned": self._has_learned, "_changed": self._changed}

    @property
    def parameters(self) -> Parameters:
        """Parameters and state by name, as a dict whose items are read and written in place."""
        from wgcc_runtime.parameters import Parameters

        return Parameters(self)

    @property
    def live_settings(self) -> Mapping[str, str]:
        """Settings of optimizers that can change between steps, with the names of their state."""
        return {}

    @property
    def captured(self) -> Captured:
        """Values inside the entry that was called last, by name: see `wgcc build --capture`."""
        from wgcc_runtime.captured import Captured

        self._land_flight()
        return Captured(self, next(reversed(self._captures), ""))

    @property
    def classes(self) -> list[str] | None:
        """The names of the classes that the model predicts, by their ids."""
        return prepare.class_names(self.preparation)

    @property
    def has_learned(self) -> bool:
        """Whether its values are trained or given, not drawn."""
        return self._has_learned or self.steps_done > 0

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
        self._changed.update(values)
        self._has_learned = True

    def reset(self, seed: int | None = None) -> None:
        """Resets to initial values and no steps. A seed draws other initial values."""
        check_process()
        seed = checked_seed(seed)
        self._write(self._start(self._seed if seed is None else seed), Progress())
        self._has_learned = self._values.has_learned

    def reset_to_bundle(self) -> None:
        """Resets to the values the bundle was built with, ignoring weights and seed of `load`."""
        self._write(self._values.words(None, own=True), Progress())
        self._changed |= self._unkept & self._values.given.keys()

    def _start(self, seed: int | None) -> DrawnWords:
        """The words of the start, but those of weights that the device has already."""
        return self._values.words(seed).without(self._unkept - self._changed)

    def save(self, path: str | Path, optimizer: bool = True, keep_previous: bool = False) -> None:
        """Writes a safetensors file, atomically. With `optimizer` it can be resumed to the bit.

        Weights of the bundle that are only corrected, as with LoRA, are left out.
        """
        plan = self._checkpoint_plan()
        tensors = self._own_tensors(plan)
        with self._use():
            progress = self._progress.copy()
            wanted = (tensors if optimizer else without_moments(tensors)).values()
            arrays = self._read(wanted, copy=False)
        save_checkpoint(path, plan, arrays, progress, keep_previous, self.preparation)

    def _own_tensors(self, plan: Plan) -> dict[str, Tensor]:
        """The tensors of a checkpoint; without the bundle's, if these are only corrected."""
        tensors, omitted = plan.persistent(), left_out(plan)
        params = {name for name in omitted if tensors[name].role == "param"}
        if params & (self._changed | self._values.given.keys()):
            return tensors
        return {name: tensor for name, tensor in tensors.items() if name not in omitted}

    def _checkpoint_plan(self) -> Plan:
        """The plan whose tensors checkpoints hold."""
        return self.plan

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
        start = self._start(self._seed)
        checkpoint = restore(path, self._checkpoint_plan(), start, weights_only, weights)
        self._write(checkpoint.words, checkpoint.progress)
        self._changed |= checkpoint.names
        self.preparation = checkpoint.preparation or self._values.names
        self._has_learned = True
        for note in checkpoint.notes:
            warnings.warn(note, WgccWarning, stacklevel=2)
        return checkpoint

    def replace_params(self, arrays: Mapping[str, Array], name: str) -> None:
        """Writes parameters, and starts anew with them: state and steps are reset.

        `name` is that of the arrays in errors.
        """
        check_process()
        words, start = words_of(arrays, self.plan, name), self._values.words(self._seed)
        persistent = self.plan.persistent().values()
        state = {t.name: start[t.name] for t in persistent if t.role == "state"}
        self._write({**state, **words}, Progress())
        self._changed.update(arrays)
        self._has_learned = True

    def snapshot(self) -> None:
        """Keeps a copy of parameters and state on the host, for `recover`.

        Large weights that no entry changes are read from their file instead, and caches start anew.
        """
        self._snapshot = self.values_now()

    def values_now(self, complete: bool = False) -> tuple[Words, Progress]:
        """Parameters and state as words, and the progress of training that belongs to them.

        Without what a snapshot leaves out, if they need not be complete.
        """
        plan = self.plan
        unkept = self._unkept - self._changed
        omitted = unkept | (left_out(plan) - self._changed if unkept else set())
        tensors = plan.persistent().items()
        with self._use():
            data = self._read_bytes(t for name, t in tensors if complete or name not in omitted)
            words = {name: np.frombuffer(part, "<u4") for name, part in data.items()}
            return words, self._progress.copy()

    def set_values(self, words: Words, progress: Progress) -> None:
        """Restores what `values_now` gave."""
        self._write(words, progress.copy())

    def recover(self) -> None:
        """After a lost device: opens a new one and restores the last `snapshot`, or resets."""
        machine = self._machine.on_new_device()
        with self._use():
            self._machine = machine
            self._runners, self._guards, self._halves = {}, {}, HalfSteps()
            self._quick = {}
            self._captures = {}
            self._write(self._values.constants)
            words, progress = self._snapshot or ({}, Progress())
            self._write(self._values.words(self._seed).without(words))
            self._write(words, progress.copy())

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
