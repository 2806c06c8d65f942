"""Data-parallel training of the processes that `mpiexec` started: `pip install mpi4py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from wgcc_runtime.distributed.agreement import Agreement, Outcome, Wants, agreement_of
from wgcc_runtime.distributed.identity import check_equal, describe_arrays, identity
from wgcc_runtime.distributed.launchers import launch
from wgcc_runtime.distributed.mpi_rounds import EndOfRound
from wgcc_runtime.distributed.processes import Processes
from wgcc_runtime.distributed.rounds import Rounds, ahead
from wgcc_runtime.distributed.setup import (
    Options,
    Start,
    checked_options,
    make_worker,
    open_log,
    start,
    training_plan,
)
from wgcc_runtime.distributed.training import Training
from wgcc_runtime.distributed.worker import Worker, WorkerLine
from wgcc_runtime.errors import WgccError
from wgcc_runtime.evaluation import make_evaluation
from wgcc_runtime.flight import Progress
from wgcc_runtime.history import History
from wgcc_runtime.model import Model

__all__ = ["MpiTeam", "Processes", "fit", "is_parallel"]


def is_parallel() -> bool:
    """Whether `mpiexec`, `srun` or the like started this process together with others."""
    launcher = launch()
    return Processes().size > 1 if launcher.size is None else launcher.size > 1


def fit(
    model: Model, bundle: str | Path, data: Any, processes: Processes | None = None, **options: Any
) -> History:
    """Trains with all processes, each of which calls this; the options are those of `Model.fit`.

    `bundle` is what `model` was loaded from, `data` a dict of arrays with all rows, of which each
    process takes its batches. `steps` counts those of all together.
    `sync_every`: exchange weights after so many steps, instead of gradients in each; then
    `outer_lr` and `outer_momentum` (Nesterov) use the change of the average as a gradient, and
    `sync_slack` is how much longer than the fastest worker others may take, as a share of its time.
    Callbacks, log and checkpoint are those of rank 0.
    The bundle's self-test runs first. An error of one process ends the training on all.
    """
    own = processes or Processes()
    with own.together():
        checked, worker = own.agree(lambda: _prepare(model, data, options, own.size))
        common, rows = checked.common, own.agree(lambda: describe_arrays(worker.arrays))
        identities = own.gather(lambda: identity(bundle, worker.adapter, rows, common))
        own.agree(lambda: check_equal(identities))
        own.agree(worker.verify)
        begin = own.lead(lambda: start(model, checked, data))
        team = MpiTeam(own, worker, checked, begin)
        log = own.agree(lambda: open_log(checked, begin) if own.rank == 0 else None)
        return Training(team, training_plan(checked, worker.entry, begin), log).run()


def _prepare(model: Model, data: Any, options: Any, workers: int) -> tuple[Options, Worker]:
    checked = checked_options(options)
    worker = make_worker(model, checked, data)
    worker.check_rows(workers)
    make_evaluation(model, checked.eval)
    return checked, worker


class MpiTeam:
    """See `training.Team`: all processes make the same calls in the same order."""

    def __init__(self, own: Processes, worker: Worker, options: Options, begin: Start) -> None:
        self._own, self._worker, self._options = own, worker, options
        self._evaluate = make_evaluation(worker.model, options.eval)
        worker.rank = own.rank
        values = own.lead(worker.values)
        own.agree(lambda: worker.take_over(values))
        self._rounds, self._numbers = None, None
        if options.sync_every is None:
            self._numbers = worker.outcome_numbers()
        else:
            self._rounds = Rounds(options.outer, worker)
            outer = self._rounds.outer
            own.agree(lambda: outer.resume(begin.velocity))

    @property
    def is_leader(self) -> bool:
        return self._own.rank == 0

    @property
    def progress(self) -> Progress:
        return self._worker.model.progress

    def step(self, wants: Wants, count: int) -> Agreement:
        agreement = self._round(wants, count) if self._rounds else self._one(wants)
        if agreement.error:
            self._own.fail(agreement.error)
        return agreement

    def _one(self, wants: Wants) -> Agreement:
        own, worker = self._own, self._worker
        position = worker.model.progress.position
        flat = worker.gradients(position + own.rank)
        outcome = worker.apply(own.mean(flat), wants)
        agreement = agreement_of(self._outcomes(outcome))
        worker.finish(agreement, position + own.size)
        return agreement

    def _outcomes(self, own: Outcome) -> list[Outcome]:
        """Gathers the outcomes of all workers. Failures, which are rare, take a second message."""
        assert self._numbers is not None
        outcomes = self._numbers.read(self._own.all_of(self._numbers.write(own)))
        return outcomes or self._own.comm.allgather(own)

    def _round(self, wants: Wants, count: int) -> Agreement:
        own, worker, rounds = self._own, self._worker, self._rounds
        assert rounds is not None
        position = worker.model.progress.position
        end = EndOfRound(own.comm, self._options.slack)
        outcome = rounds.run(position + own.rank, own.size, count, wants, end.is_over)
        end.announce(outcome, count)
        outcomes = own.comm.allgather(outcome)
        end.close(outcomes, count)
        agreement = agreement_of(outcomes)
        if agreement.error:
            rounds.undo()
            return agreement
        average = own.mean(worker.floats(), [other.rows for other in outcomes])
        leader, counters = ahead(outcomes), None
        if leader is not None:
            own_counters = worker.counters() if own.rank == leader else None
            counters = own.comm.bcast(own_counters, root=leader)
        try:
            own.agree(lambda: rounds.finish(average, position + count * own.size, counters))
        except WgccError:
            rounds.undo()
            raise
        return agreement

    def even_out(self) -> None:
        own, worker = self._own, self._worker
        if len(set(own.gather(worker.digest))) > 1:
            values = own.lead(worker.values)
            own.agree(lambda: worker.take_over(values))

    def lead(self, work: Callable[[], bool]) -> bool:
        return self._own.lead(work)

    def evaluate(self) -> dict[str, float]:
        return self._evaluate()

    def save(self, path: Path, keep_previous: bool) -> None:
        velocity = self._rounds.outer.saved_velocity if self._rounds else None
        self._worker.save(path, keep_previous, velocity)

    def lines(self) -> list[WorkerLine]:
        return self._own.gather(self._worker.line)
