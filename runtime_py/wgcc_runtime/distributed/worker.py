"""One worker: a model with its part of the data. What connects workers is not known here."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from socket import gethostname
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array, Batch
from wgcc_runtime.batches import ArraySource
from wgcc_runtime.checkpoint import save_checkpoint
from wgcc_runtime.distributed.agreement import Agreement, Failure, Outcome, OutcomeNumbers, Wants
from wgcc_runtime.drawn import random_words
from wgcc_runtime.errors import WgccError
from wgcc_runtime.flight import Launcher, Progress, exchange_of
from wgcc_runtime.model import Model
from wgcc_runtime.plan import WORD, Tensor
from wgcc_runtime.runner import is_scalar
from wgcc_runtime.selftest import check_selftest
from wgcc_runtime.values import SEED_STATE, is_gradient_sum

# Local steps that one submit holds at most, and how long it may about take: a round that is over
# ends after the submit.
SUBMIT_STEPS, SUBMIT_SECONDS = 16, 0.1

Counters = dict[str, Array]


@dataclass(frozen=True, slots=True)
class Values:
    """All that a worker needs to continue where another is."""

    words: dict[str, Array]
    progress: Progress


@dataclass(slots=True)
class Clock:
    """Seconds that a worker computed, and that it exchanged or waited for others."""

    computing: float = 0.0
    exchanging: float = 0.0

    @property
    def share(self) -> float:
        return self.exchanging / max(1e-9, self.computing + self.exchanging)


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """One line about a worker: where it runs, its time in exchanges, rows it has computed."""

    rank: int
    adapter: str
    host: str
    exchanging: float
    rows: int

    def __str__(self) -> str:
        share = f"{100 * self.exchanging:.0f} % of the time exchanging"
        return f"worker {self.rank}: {self.adapter} on {self.host}, {self.rows:,} rows, {share}"


class Worker:
    """`rank` numbers the workers; each has random numbers of its own."""

    def __init__(self, model: Model, entry: str, data: Mapping[str, Any], seed: int) -> None:
        self.model = model
        self.entry = model.entry(entry)
        self.clock = Clock()
        self.rank = 0
        self._rows_done = 0
        self._data, self._order = data, seed
        self._source = ArraySource(data, self.entry, seed, 0)
        self._watched = [n for n, t in self.entry.outputs.items() if is_scalar(t)]
        self._seed = self._read_seed()
        self._failure: Failure | None = None
        self._submit = 1
        self._mark = time.perf_counter()

    @property
    def rows(self) -> int:
        """The number of rows in one batch."""
        return self._source.batch

    @property
    def arrays(self) -> Mapping[str, Array]:
        """All data by the names of inputs."""
        return self._source.arrays

    def check_rows(self, workers: int) -> None:
        """Each worker needs a batch of its own in every step."""
        count, batch = self._source.count, self._source.batch
        if self.entry.rows and count == 1:
            # Arrays that are just one batch have no rows to choose from.
            count = batch = self.entry.rows.count
        if count // batch < workers and self.entry.rows:
            raise WgccError(
                "data",
                f"{count} rows are fewer than {workers} workers take in one step ({batch} rows "
                "each): use fewer workers, or build for a smaller batch",
            )

    def verify(self) -> None:
        """Runs the bundle's self-test; what the model has is the same afterwards."""
        before = self.values()
        try:
            check_selftest(self.model)
        finally:
            self.take_over(before)

    def assign(self, rank: int) -> None:
        """A rank, which decides the random numbers; rank 0 draws as one machine would."""
        self.rank = rank
        if self._seed is not None:
            drawn = int(random_words(self._seed, "worker", 1, rank)[0]) if rank else self._seed
            self.model._write({SEED_STATE: np.array(drawn, np.uint32)})

    def _read_seed(self) -> int | None:
        tensor = self.model.plan.tensors.get(SEED_STATE)
        return None if tensor is None else int(self.model._read([tensor])[SEED_STATE])

    # ---- steps whose gradients are averaged

    @property
    def length(self) -> int:
        """How many numbers the gradients are."""
        return exchange_of(self.entry).bytes // WORD

    def gradients(self, position: int) -> Array:
        """The gradients of batch number `position`; a failure is kept for `apply`."""
        self._failure = None
        started = time.perf_counter()
        self.clock.exchanging += started - self._mark
        try:
            flat = self.model._gradients(self.entry, self._take(position))
        except Exception as error:
            self._failure = Failure.of(error, own=True)
            flat = np.full(self.length, np.nan, np.float32)
        self._flat = flat
        self._tick(started)
        return flat

    @property
    def has_lost_device(self) -> bool:
        return self._failure is not None and self._failure.is_lost_device

    def apply(self, mean: Array, wants: Wants) -> Outcome:
        started = time.perf_counter()
        self.clock.exchanging += started - self._mark
        outputs, state = {}, np.zeros(0, np.float32)
        self._applied = False
        if self._failure is None:
            try:
                outputs = self.model.apply(mean)
                self._applied = True
                state = self.model._halves.averaged_state
            except Exception as error:
                self._failure = Failure.of(error, self._is_own(error))
        names = exchange_of(self.entry).outputs
        numbers = {name: float(outputs[name]) for name in names if name in outputs}
        outcome = Outcome(self.rank, self.adapter, wants, self.rows, numbers, state, self._failure)
        self._rows_done += self.rows
        self._tick(started)
        return outcome

    def outcome_numbers(self) -> OutcomeNumbers:
        names = [name for name in exchange_of(self.entry).outputs if name in self.entry.outputs]
        return OutcomeNumbers(names, sum(tensor.size for tensor in self._state_tensors))

    def _is_own(self, error: Exception) -> bool:
        """Whether this worker caused it, and not another one's gradients."""
        is_nan = isinstance(error, WgccError) and error.code == "nan"
        return not is_nan or not np.isfinite(self._flat).all()

    def finish(self, agreement: Agreement, position: int) -> None:
        """Takes over what all agreed on; the data continues at `position`."""
        if agreement.error:
            if self._applied:
                self.model.undo()
            return
        if agreement.state.size:
            self._write_floats(self._state_tensors, agreement.state)
        self.model.progress.position = position

    @cached_property
    def _state_tensors(self) -> list[Tensor]:
        return [self.model.plan.tensors[name] for name in exchange_of(self.entry).state]

    # ---- steps of its own

    def local_steps(
        self, positions: Sequence[int], wants: Wants, is_over: Callable[[], bool]
    ) -> Outcome:
        """Whole steps with these batches, at least one, until the round `is_over`.

        All that is float is averaged afterwards.
        """
        started = time.perf_counter()
        self.clock.exchanging += started - self._mark
        self._failure, last, done = None, {}, 0
        try:
            launcher = self.model.runner(self.entry.name, self._watched)
            while done < len(positions) and not (done and is_over()):
                some = positions[done : done + self._submit]
                last = self._run(launcher, some)
                done += len(some)
        except Exception as error:
            self._failure = Failure.of(error, own=True)
        numbers = {name: float(last[name]) for name in self._watched if name in last}
        rows = self.rows * done
        self._rows_done += rows
        self._tick(started)
        return Outcome(
            self.rank, self.adapter, wants, rows, numbers, failure=self._failure, steps=done
        )

    def _run(self, launcher: Launcher, positions: Sequence[int]) -> dict[str, Array]:
        """One submit; the next one has more steps if this was short."""
        started = time.perf_counter()
        last = launcher.run([self._take(position) for position in positions])[-1]
        if time.perf_counter() - started < SUBMIT_SECONDS / 2:
            self._submit = min(2 * self._submit, SUBMIT_STEPS)
        elif time.perf_counter() - started > SUBMIT_SECONDS:
            self._submit = max(1, self._submit // 2)
        return last

    def counters(self) -> Counters:
        """The state that follows from the number of steps: all integers, and unfinished sums of
        gradients, which belong to a counter."""
        names = [n for n, t in self._persistent.items() if not t.is_float or is_gradient_sum(n)]
        data = self.model._read_bytes([self._persistent[n] for n in names if n != SEED_STATE])
        return {name: np.frombuffer(part, "<u4").copy() for name, part in data.items()}

    def take_counters(self, counters: Counters) -> None:
        self.model._write(counters)

    def floats(self) -> Array:
        """All parameters and state that are floats, as one array."""
        tensors = self._float_tensors()
        with self.model._use():
            views = self.model._read_bytes(tensors)
        # Halves, too, are stored as 32-bit floats.
        parts = [np.frombuffer(views[t.name], "<f4") for t in tensors]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def write_floats(self, flat: Array) -> None:
        self._write_floats(self._float_tensors(), flat)

    def parameters(self) -> Array:
        """Which of `floats` are parameters that train."""
        tensors = self._float_tensors()
        return np.concatenate([np.full(t.size, t.role == "param" and t.trainable) for t in tensors])

    @property
    def _persistent(self) -> dict[str, Tensor]:
        return self.model.plan.persistent()

    def _float_tensors(self) -> list[Tensor]:
        return [t for t in self._persistent.values() if t.is_float]

    def _write_floats(self, tensors: Sequence[Tensor], flat: Array) -> None:
        words, at = {}, 0
        for tensor in tensors:
            part = flat[at : at + tensor.size]
            if tensor.dtype == "f16":
                part = part.astype(np.float16).astype(np.float32)
            words[tensor.name] = np.ascontiguousarray(part).view(np.uint32)
            at += tensor.size
        self.model._write(words)

    # ---- everything

    @property
    def adapter(self) -> str:
        return self.model.device_name

    def line(self) -> WorkerLine:
        return WorkerLine(self.rank, self.adapter, gethostname(), self.clock.share, self._rows_done)

    def values(self) -> Values:
        """The values as rank 0 would have them; a step that is half done is undone."""
        with self.model._use():
            data = self.model._read_bytes(self._persistent.values())
            words = {name: np.frombuffer(part, "<u4").copy() for name, part in data.items()}
            if self._seed is not None:
                words[SEED_STATE][...] = self._seed
            return Values(words, self.model.progress.copy())

    def take_over(self, values: Values) -> None:
        self.model._write(values.words, values.progress.copy())
        self._seed = self._read_seed()
        if self._order != values.progress.seed:
            self._order = values.progress.seed
            self._source = ArraySource(self._data, self.entry, self._order, 0)
        self.assign(self.rank)
        self._mark = time.perf_counter()

    def save(self, path: Path, keep_previous: bool, velocity: Array | None) -> None:
        """A checkpoint, with the momentum of the outer step, if there is one."""
        model = self.model
        with model._use():
            arrays, progress = model._read(self._persistent.values()), model.progress.copy()
        save_checkpoint(
            path, model.plan, arrays, progress, keep_previous, model.preparation, velocity
        )

    def digest(self) -> str:
        values = self.values()
        return hashlib.sha256(b"".join(w.tobytes() for w in values.words.values())).hexdigest()

    def _take(self, position: int) -> Batch:
        self._source.position = position
        batch = self._source.take()
        assert batch is not None
        return batch

    def _tick(self, started: float) -> None:
        self._mark = time.perf_counter()
        self.clock.computing += self._mark - started
