"""The training loop of several workers: steps, reports, evaluation, checkpoints.

The same loop runs on every process of an MPI job, and in the driver of a Ray cluster. Only the
leader reports and writes files; what others must know of that is agreed on in each step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from wgcc_runtime.distributed.agreement import Agreement, Wants
from wgcc_runtime.distributed.worker import WorkerLine
from wgcc_runtime.errors import WgccError
from wgcc_runtime.flight import Progress
from wgcc_runtime.history import History, Log, Pace, Report
from wgcc_runtime.schedule import Schedule
from wgcc_runtime.training_loop import CHECKPOINT_SECONDS

# How often a line for each worker is shown during the training.
LINES_SECONDS = 60.0


class WorkersMissing(WgccError):
    """Too few workers are left to continue; those that are left can still be saved."""


class AllWorkersDied(WgccError):
    """Nothing is left but what was saved before."""


class Team(Protocol):
    """The workers of a training."""

    @property
    def is_leader(self) -> bool: ...

    @property
    def progress(self) -> Progress: ...

    def step(self, wants: Wants, count: int) -> Agreement:
        """One step of all workers, or `count` steps of each and one average.

        A step that fails is undone on all workers before this raises.
        """

    def even_out(self) -> None:
        """Gives all workers the bits of rank 0, before a checkpoint."""

    def lead(self, work: Callable[[], bool]) -> bool:
        """Runs `work` on the leader; all processes get its result or its error."""

    def evaluate(self) -> dict[str, float]: ...

    def save(self, path: Path, keep_previous: bool) -> None: ...

    def lines(self) -> list[WorkerLine]: ...


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """The work of a training besides its steps. `keep_previous`: see `Model.save`.

    `notice` gets a line for each worker at the first report, and then each minute.
    """

    entry: str
    loss: str
    schedule: Schedule
    sync_every: int | None
    evaluates: bool
    callbacks: Sequence[Callable[[Report], Any]]
    checkpoint: Path | None
    stop: Callable[[], bool]
    keep_previous: bool = True
    notes: tuple[str, ...] = ()
    notice: Callable[[str], Any] = lambda _: None


class Training:
    def __init__(self, team: Team, plan: TrainingPlan, log: Log | None) -> None:
        self._team, self._plan, self._log = team, plan, log
        self._history = History(notes=plan.notes)
        self._pace = Pace()
        self._saved_at, self._saved_step = time.monotonic(), -1
        self._lines_at: float | None = None
        self._keep_previous = plan.keep_previous

    def run(self) -> History:
        try:
            self._make_steps()
        finally:
            if self._log:
                self._log.close()
        self._history.steps_done = self._step
        self._history.workers = [str(line) for line in self._team.lines()]
        return self._history

    def _make_steps(self) -> None:
        try:
            while not self._is_over():
                pass
            if self._plan.checkpoint and self._saved_step != self._step:
                self._team.even_out()
                self._team.lead(self._save)
                self._saved_step = self._step
        except WorkersMissing as error:
            if self._plan.checkpoint is None:
                raise WgccError(error.code, error.message) from None
            self._save()
            text = f"{error.message}; saved {self._plan.checkpoint} at step {self._step}"
            raise WgccError(error.code, f"{text}: resume from it") from None
        except AllWorkersDied as error:
            raise WgccError(error.code, f"{error.message}; {self._what_remains()}") from None

    def _what_remains(self) -> str:
        path = self._plan.checkpoint
        if path is None:
            return "there is no checkpoint to resume from"
        return f"resume from {path}" if path.exists() else f"{path} was not written yet"

    @property
    def _step(self) -> int:
        return self._team.progress.step(self._plan.entry)

    def _is_over(self) -> bool:
        """Makes a step, or a round of local steps; whether the training has ended."""
        last, before = self._plan.schedule.last, self._step
        assert last is not None
        if before >= last:
            return True
        count = min(self._plan.sync_every or 1, last - before)
        started = time.perf_counter()
        after = before + count
        wants = Wants(
            self._plan.stop(), self._save_is_due(before, after), self._lines_are_due(before, after)
        )
        agreement = self._team.step(wants, count)
        self._pace.add(count, time.perf_counter() - started)
        wants_end = self._after(before, agreement)
        if wants_end or agreement.stop:
            self._history.stopped = "callback" if wants_end else "stop"
            return True
        return False

    def _after(self, before: int, agreement: Agreement) -> bool:
        schedule, step = self._plan.schedule, self._step
        reports = self._is_due(schedule.every, before, step)
        evaluates = self._plan.evaluates and self._is_due(schedule.eval_every, before, step)
        if agreement.save:
            self._team.even_out()
        if agreement.lines:
            self._show_workers()
        if not (reports or evaluates or agreement.save):
            return False

        def work() -> bool:
            ends = (reports or evaluates) and self._report(agreement, evaluates)
            if agreement.save:
                self._save()
            return ends

        ends = self._team.lead(work)
        if agreement.save:
            self._saved_at, self._saved_step = time.monotonic(), step
        return ends

    def _report(self, agreement: Agreement, evaluates: bool) -> bool:
        results = self._team.evaluate() if evaluates else {}
        numbers = agreement.outputs
        report = Report(self._step, numbers[self._plan.loss], numbers, results, self._pace.ms())
        self._history.reports.append(report)
        if self._log:
            self._log.write(report)
        return "stop" in [callback(report) for callback in self._plan.callbacks]

    def _is_due(self, period: int, before: int, after: int) -> bool:
        last = self._plan.schedule.last
        return before // period < after // period or after == last

    def _save_is_due(self, before: int, after: int) -> bool:
        schedule = self._plan.schedule
        if self._plan.checkpoint is None or not self._team.is_leader:
            return False
        if schedule.checkpoint_every:
            return self._is_due(schedule.checkpoint_every, before, after)
        waited = time.monotonic() - self._saved_at > CHECKPOINT_SECONDS
        return waited and self._is_due(schedule.every, before, after)

    def _lines_are_due(self, before: int, after: int) -> bool:
        if not self._team.is_leader or not self._is_due(self._plan.schedule.every, before, after):
            return False
        return self._lines_at is None or time.monotonic() - self._lines_at > LINES_SECONDS

    def _show_workers(self) -> None:
        self._lines_at = time.monotonic()
        lines = self._team.lines()
        for line in lines if self._team.is_leader else ():
            self._plan.notice(str(line))

    def _save(self) -> bool:
        assert self._plan.checkpoint is not None
        self._team.save(self._plan.checkpoint, self._keep_previous)
        self._keep_previous = True
        return False
