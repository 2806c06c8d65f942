"""Data-parallel training of the processes that `mpiexec` started: `pip install mpi4py`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from socket import gethostname
from typing import Any, TypeVar

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.checkpoint import Progress
from wgcc_runtime.distributed.agreement import Agreement, Wants, agreed
from wgcc_runtime.distributed.averaging import cuts, mean
from wgcc_runtime.distributed.identity import check_equal, identity
from wgcc_runtime.distributed.rounds import Rounds, read_velocity, write_velocity
from wgcc_runtime.distributed.setup import (
    Options,
    Start,
    checked_options,
    make_worker,
    open_log,
    start,
    training_plan,
)
from wgcc_runtime.distributed.training import Training, WorkerLine
from wgcc_runtime.distributed.worker import Worker
from wgcc_runtime.errors import WgccError
from wgcc_runtime.evaluation import make_evaluation
from wgcc_runtime.history import History
from wgcc_runtime.model import Model

# Variables in which process managers say how many processes they started.
SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
T = TypeVar("T")


def is_parallel() -> bool:
    """Whether `mpiexec` started this process together with others."""
    return _announced() > 1


def _announced() -> int:
    found = [os.environ[name] for name in SIZES if os.environ.get(name, "").isdigit()]
    return max(map(int, found), default=1)


class Processes:
    """The processes of this MPI job."""

    def __init__(self) -> None:
        try:
            from mpi4py import MPI
        except ImportError as error:
            text = f"mpiexec started {_announced()} processes, but mpi4py cannot be imported"
            raise WgccError("no-mpi", f"{text} ({error}): pip install 'wgcc[mpi]'") from None
        self.comm: Any = MPI.COMM_WORLD
        self.rank, self.size = int(self.comm.rank), int(self.comm.size)
        if self.size < _announced():
            raise WgccError(
                "no-mpi",
                f"mpiexec started {_announced()} processes, but mpi4py sees {self.size}: they are "
                "of different MPI libraries (pip install 'wgcc[mpi]' has an mpiexec that fits)",
            )

    def agree(self, work: Callable[[], T]) -> T:
        """Runs `work` everywhere; an error of one process is raised by all."""
        result, error = None, None
        try:
            result = work()
        except WgccError as failure:
            error = failure.code, failure.message
        found = self.comm.allgather(error)
        _raise_first(found)
        return result  # type: ignore[return-value]

    def lead(self, work: Callable[[], T]) -> T:
        """Runs `work` on rank 0; all get its result, or raise its error."""
        found: tuple[Any, tuple[str, str] | None] = None, None
        if self.rank == 0:
            try:
                found = work(), None
            except WgccError as failure:
                found = None, (failure.code, failure.message)
        result, error = self.comm.bcast(found)
        if error:
            raise WgccError(*error)
        done: T = result
        return done

    def mean(self, flat: Array, weights: Sequence[float] | None = None) -> Array:
        """The mean over all processes: each adds up one part, in the order of ranks."""
        ends = cuts(flat.size, self.size)
        counts = [end - start for start, end in pairwise(ends)]
        own = counts[self.rank]
        received = np.empty((self.size, own), np.float32)
        self.comm.Alltoallv(
            [np.ascontiguousarray(flat, np.float32), (counts, ends[:-1])],
            [received, ([own] * self.size, [own * i for i in range(self.size)])],
        )
        result = np.empty(flat.size, np.float32)
        self.comm.Allgatherv(mean(list(received), weights), [result, (counts, ends[:-1])])
        return result

    def abort(self, code: int) -> None:
        self.comm.Abort(code)


def _raise_first(errors: Sequence[tuple[str, str] | None]) -> None:
    for rank, error in enumerate(errors):
        if error:
            same = all(other == error for other in errors)
            place = "" if same else f"worker {rank}: "
            raise WgccError(error[0], f"{place}{error[1]}")


def fit(
    model: Model, bundle: str | Path, data: Any, processes: Processes | None = None, **options: Any
) -> History:
    """Trains with all processes, each of which calls this; the options are those of `Model.fit`.

    `bundle` is what `model` was loaded from, `data` a dict of arrays with all rows, of which each
    process takes its batches. `steps` counts those of all together.
    `sync_every`: exchange weights after so many steps, instead of gradients in each; then
    `outer_lr` and `outer_momentum` (Nesterov) use the change of the average as a gradient.
    Callbacks, log and checkpoint are those of rank 0.
    """
    own = processes or Processes()

    def prepare() -> tuple[Options, Worker]:
        checked = checked_options(options)
        worker = make_worker(model, checked, data)
        worker.check_rows(own.size)
        make_evaluation(model, checked.eval)
        return checked, worker

    checked, worker = own.agree(prepare)
    check_equal(own.comm.allgather(identity(bundle, worker.adapter)))
    begin = own.lead(lambda: start(model, checked, data))
    team = MpiTeam(own, worker, checked, begin)
    log = own.agree(lambda: open_log(checked, begin) if own.rank == 0 else None)
    return Training(team, training_plan(checked, worker.entry, begin), log).run()


class MpiTeam:
    """See `training.Team`: all processes make the same calls in the same order."""

    def __init__(self, own: Processes, worker: Worker, options: Options, begin: Start) -> None:
        self._own, self._worker, self._options = own, worker, options
        self._evaluate = make_evaluation(worker.model, options.eval)
        worker.rank = own.rank
        worker.take_over(own.comm.bcast(worker.values() if own.rank == 0 else None))
        self._rounds = None
        if options.sync_every is not None:
            self._rounds = Rounds(options.outer, worker)
            velocity = own.lead(lambda: self._old_velocity(begin))
            if velocity is not None:
                self._rounds.outer.velocity = velocity

    def _old_velocity(self, begin: Start) -> Array | None:
        if not begin.is_resumed or self._rounds is None:
            return None
        place = self._options.checkpoint if self._options.resume is True else self._options.resume
        return read_velocity(Path(place), self._options.outer, self._options.entry, begin.step)

    @property
    def is_leader(self) -> bool:
        return self._own.rank == 0

    @property
    def progress(self) -> Progress:
        return self._worker.model.progress

    def step(self, wants: Wants, count: int) -> Agreement:
        agreement = self._round(wants, count) if self._rounds else self._one(wants)
        if agreement.error:
            raise agreement.error
        return agreement

    def _one(self, wants: Wants) -> Agreement:
        own, worker = self._own, self._worker
        position = worker.model.progress.position
        flat = worker.gradients(position + own.rank)
        outcome = worker.apply(own.mean(flat), wants)
        agreement = agreed(own.comm.allgather(outcome))
        worker.finish(agreement, position + own.size)
        return agreement

    def _round(self, wants: Wants, count: int) -> Agreement:
        own, worker, rounds = self._own, self._worker, self._rounds
        assert rounds is not None
        position = worker.model.progress.position
        outcome = rounds.run(position + own.rank, own.size, count, wants)
        outcomes = own.comm.allgather(outcome)
        agreement = agreed(outcomes)
        if agreement.error:
            rounds.undo()
            return agreement
        average = own.mean(worker.floats(), [other.rows for other in outcomes])
        try:
            own.agree(lambda: rounds.finish(average, position + count * own.size))
        except WgccError:
            rounds.undo()
            raise
        return agreement

    def even_out(self) -> None:
        digests = self._own.comm.allgather(self._worker.digest())
        if len(set(digests)) > 1:
            values = self._worker.values() if self.is_leader else None
            self._worker.take_over(self._own.comm.bcast(values))

    def lead(self, work: Callable[[], bool]) -> bool:
        return self._own.lead(work)

    def evaluate(self) -> dict[str, float]:
        return self._evaluate()

    def save(self, path: Path, keep_previous: bool) -> None:
        if self._rounds:
            velocity, steps = self._rounds.outer.velocity, self.progress.steps
            write_velocity(path, self._options.outer, velocity, steps)
        self._worker.model.save(path, keep_previous=keep_previous)

    def lines(self) -> list[WorkerLine]:
        worker, rank = self._worker, self._own.rank
        line = WorkerLine(rank, worker.adapter, gethostname(), worker.clock.share)
        return list(self._own.comm.allgather(line))
