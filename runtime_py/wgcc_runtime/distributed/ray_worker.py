"""The Ray actor: it runs one worker and answers the calls of the driver."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import wgcc_runtime
from wgcc_runtime.arrays import Array
from wgcc_runtime.data.preparation import Preparation
from wgcc_runtime.distributed.agreement import LOST_DEVICE, Agreement, Outcome, Wants
from wgcc_runtime.distributed.averaging import cuts, mean
from wgcc_runtime.distributed.identity import Identity, identity
from wgcc_runtime.distributed.outer import OuterSettings
from wgcc_runtime.distributed.reserved import device_for
from wgcc_runtime.distributed.rounds import Rounds
from wgcc_runtime.distributed.worker import Counters, Values, Worker, WorkerLine
from wgcc_runtime.errors import WgccError
from wgcc_runtime.evaluation import make_evaluation

T = TypeVar("T")
# The calls of this group reach a worker that computes.
SIGNALS = "signals"


@dataclass(frozen=True, slots=True)
class Job:
    """The settings of a training that all workers share; `outer` is for `sync_every`."""

    entry: str
    device: str | None
    threads: int | None
    outer: OuterSettings | None
    preparation: Preparation | None


@dataclass(frozen=True, slots=True)
class Committed:
    """The progress of all workers: the step, where the data continues, the averaged state."""

    step: int
    position: int
    agreement: Agreement | None = None


@dataclass(frozen=True, slots=True)
class Everything:
    """The state that a joining worker gets from one that is already there."""

    values: Values
    velocity: Array | None


def _on_device(method: Callable[..., T]) -> Callable[..., T]:
    """A worker whose device is lost ends: it is replaced like one that was killed."""

    @wraps(method)
    def call(self: RayWorker, *arguments: Any) -> T:
        try:
            result = method(self, *arguments)
        except WgccError as error:
            if error.code == LOST_DEVICE:
                os._exit(1)
            raise
        if self._worker.has_lost_device:
            os._exit(1)
        return result

    return call


class RayWorker:
    """`settle` brings it to the last step that all have done, whatever happened since."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._finished = -1
        self._ended_round = -1

    def join(self, bundle: bytes, data: Mapping[str, Any]) -> tuple[Identity, int]:
        """Loads the bundle and runs its self-test; returns who it is, with its process id."""
        self._folder = tempfile.TemporaryDirectory(prefix="wgcc-")
        path = Path(self._folder.name) / "bundle.zip"
        path.write_bytes(bundle)
        job = self._job
        device = device_for(job.device, _reserved_gpus())
        model = wgcc_runtime.load(path, device=device, threads=job.threads, verify=True)
        model.preparation = job.preparation or model.preparation
        self._worker = Worker(model, job.entry, data, 0)
        self._rounds = Rounds(job.outer, self._worker) if job.outer else None
        return identity(path, self._worker.adapter), os.getpid()

    def check_rows(self, workers: int) -> None:
        self._worker.check_rows(workers)

    @_on_device
    def start(self, everything: Everything, rank: int, committed: Committed) -> None:
        self._worker.rank = rank
        self._worker.take_over(everything.values)
        if self._rounds:
            self._rounds.outer.resume(everything.velocity)
        self._finished = committed.step

    def is_there(self) -> None:
        """Answers if the process lives."""

    @_on_device
    def assign(self, rank: int) -> None:
        self._worker.assign(rank)

    @_on_device
    def everything(self) -> Everything:
        velocity = self._rounds.outer.saved_velocity if self._rounds else None
        return Everything(self._worker.values(), velocity)

    @_on_device
    def settle(self, committed: Committed) -> None:
        """Undoes what is not committed, and finishes what is."""
        self._worker.model._land_flight()
        if self._step > committed.step:
            if self._rounds:
                self._rounds.undo()
            else:
                self._worker.model.undo()
        self._finish(committed)

    @property
    def _step(self) -> int:
        return self._worker.model.progress.step(self._job.entry)

    def _finish(self, committed: Committed) -> None:
        if committed.agreement and self._finished < committed.step:
            self._worker.finish(committed.agreement, committed.position)
        self._finished = max(self._finished, committed.step)

    # ---- a step

    @_on_device
    def gradients(self, committed: Committed, workers: int) -> Any:
        """The gradients of its batch, in as many parts as there are workers."""
        self._finish(committed)
        return self._cut(self._worker.gradients(committed.position + self._worker.rank), workers)

    def reduce(self, weights: Sequence[float] | None, *parts: Array) -> Array:
        """The mean of one part, added up in the order of ranks."""
        return mean(parts, weights)

    @_on_device
    def apply(self, wants: Wants, *parts: Array) -> Outcome:
        return self._worker.apply(_join(parts), wants)

    # ---- a round of local steps

    @_on_device
    def local_steps(
        self, committed: Committed, workers: int, count: int, wants: Wants, number: int
    ) -> Outcome:
        """Runs the steps of the round `number`, which `end_round` may end early."""
        assert self._rounds is not None
        first = committed.position + self._worker.rank
        return self._rounds.run(first, workers, count, wants, lambda: self._ended_round == number)

    def end_round(self, number: int) -> None:
        """Called while `local_steps` runs."""
        self._ended_round = number

    @_on_device
    def counters(self) -> Counters:
        return self._worker.counters()

    @_on_device
    def floats(self, workers: int) -> Any:
        return self._cut(self._worker.floats(), workers)

    @_on_device
    def finish_round(self, position: int, counters: Counters | None, *parts: Array) -> None:
        assert self._rounds is not None
        self._rounds.finish(_join(parts), position, counters)

    @_on_device
    def undo_round(self) -> None:
        assert self._rounds is not None
        self._rounds.undo()

    # ---- between steps

    @_on_device
    def digest(self) -> str:
        return self._worker.digest()

    @_on_device
    def evaluate(self, data: Any) -> dict[str, float]:
        return make_evaluation(self._worker.model, data)()

    def line(self) -> WorkerLine:
        return self._worker.line()

    def _cut(self, flat: Array, workers: int) -> Any:
        ends = cuts(flat.size, workers)
        parts = [flat[ends[i] : ends[i + 1]] for i in range(workers)]
        return parts if workers > 1 else parts[0]


def _reserved_gpus() -> list[int]:
    import ray

    return [int(number) for number in ray.get_gpu_ids()]


def _join(parts: Sequence[Array]) -> Array:
    return np.concatenate(parts) if len(parts) > 1 else np.array(parts[0])
