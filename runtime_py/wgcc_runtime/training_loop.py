"""The training loop: several steps per submit; reports, evaluation and checkpoints between them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wgcc_runtime.arrays import Array, Batch
from wgcc_runtime.batches import Source
from wgcc_runtime.checkpoint import Checkpoint
from wgcc_runtime.errors import WgccError
from wgcc_runtime.evaluation import Evaluate
from wgcc_runtime.history import History, Log, Pace, Report
from wgcc_runtime.plan import Entry
from wgcc_runtime.recovery import Recovery
from wgcc_runtime.replace_file import previous
from wgcc_runtime.runner import is_scalar
from wgcc_runtime.schedule import Schedule

if TYPE_CHECKING:
    from wgcc_runtime.model import Model

# One submit aims at this many seconds of work (a desktop kills a GPU job after about two), and
# holds at most this many steps and bytes of batches.
SUBMIT_SECONDS = 0.15
SUBMIT_STEPS = 64
SUBMIT_BYTES = 32 << 20
# Without `checkpoint_every`, reports this many seconds after the last checkpoint make a new one.
CHECKPOINT_SECONDS = 15.0

Callback = Callable[[Report], Any]
Place = str | Path


class TrainingLoop:
    """Trains an entry with a source of batches; `run` makes all steps."""

    def __init__(
        self,
        model: Model,
        entry: Entry,
        source: Callable[[], Source],
        schedule: Schedule,
        evaluate: Evaluate,
        callbacks: Sequence[Callback],
        checkpoint: Place | None,
        resumed: Checkpoint | None,
        stop: Callable[[], bool],
        recovery: Recovery | None,
        epochs: int | None,
    ) -> None:
        self._model, self._entry, self._open = model, entry, source
        self._recovery, self._epochs = recovery, epochs
        self._schedule, self._evaluate, self._callbacks = schedule, evaluate, callbacks
        self._checkpoint, self._stop = checkpoint, stop
        self._watched = [name for name, tensor in entry.outputs.items() if is_scalar(tensor)]
        self._loss = "loss" if "loss" in self._watched else self._watched[0]
        self._begin()
        self._history = History(notes=resumed.notes if resumed else ())
        # If the file to replace is damaged, the previous one is the only good one: keep it.
        self._keep_previous = not (
            resumed and checkpoint and resumed.path == previous(Path(checkpoint))
        )
        self._log: Log | None = None
        self._submit_steps = 1
        # What callbacks allow for the next submit; None: any number.
        self._most: int | None = None
        self._pace = Pace()
        self._saved_at = time.monotonic()
        self._saved_step = -1

    def run(self, log: Log | None) -> History:
        self._log = log
        for callback in self._callbacks:
            getattr(callback, "begin", _nothing)(self._model, self._schedule.last)
        try:
            while not self._train_to_end():
                pass
            for callback in self._callbacks:
                # One that keeps the best values, for example, restores them.
                getattr(callback, "end", _nothing)(self._model)
            if self._checkpoint and self._saved_step != self._step:
                self._save()
        except WgccError as error:
            self._end(error)
            raise
        finally:
            for callback in self._callbacks:
                getattr(callback, "close", _nothing)()
            if log:
                log.close()
            self._source.close()
        return self._history

    def _end(self, error: WgccError) -> None:
        """Saves a checkpoint if the log failed; names the step if the model was closed."""
        if error.code == "log" and self._checkpoint:
            # The disk may be full, or still have room for a checkpoint.
            with contextlib.suppress(WgccError):
                self._save()
        if error.code == "closed":
            text = f"fit: the model was closed, by a callback or a thread, at step {self._step}"
            raise WgccError("closed", text) from None

    def _begin(self) -> None:
        self._source = self._open()
        self._launcher = self._model.runner(self._entry.name, self._watched)
        self._failure: BaseException | None = None

    def _train_to_end(self) -> bool:
        """Trains to the end, or until a lost device was replaced by a new one."""
        try:
            self._run()
            if self._recovery:
                # A device that is lost later takes nothing along: see `Model.recover`.
                self._recovery.copy()
        except WgccError as error:
            if self._recovery is None or not self._recovery.replaced_device(error):
                raise
            self._source.close()
            self._begin()
            self._history.back_to(self._step)
            if self._log:
                self._log.back_to(self._step)
            return False
        return True

    @property
    def _step(self) -> int:
        return self._model.progress.step(self._entry.name)

    def _run(self) -> None:
        batches = self._take(self._step)
        while batches:
            count = len(batches) if self._most is None else self._most
            batches, rest = batches[:count], batches[count:]
            started, step = time.perf_counter(), self._step
            flight = self._launcher.start(batches, from_data=True)
            # The host prepares the next batches while the GPU works.
            following = rest or self._take(step + len(batches))
            outputs = self._launcher.finish(flight)
            self._adapt(len(batches), time.perf_counter() - started)
            if self._after(outputs[-1], is_end=not following and not self._failure):
                return
            batches = following
        if self._failure:
            raise self._failure
        is_short = self._schedule.last is None or self._step < self._schedule.last
        if is_short and not self._epochs:
            self._history.stopped = "data"

    def _take(self, step: int) -> list[Batch]:
        """The batches of the submit that follows `step` steps.

        An error here is kept until the steps before it are done and counted.
        """
        count = min(self._submit_steps, self._schedule.until_next(step))
        batches: list[Batch] = []
        while len(batches) < count and not self._failure:
            try:
                batch = self._source.take()
            except BaseException as failure:
                self._failure = failure
                break
            if batch is None:
                break
            batches.append(batch)
        return batches

    def _adapt(self, count: int, seconds: float) -> None:
        self._pace.add(count, seconds)
        size = max(1, sum(tensor.bytes for tensor in self._entry.inputs.values()))
        fitting = int(SUBMIT_SECONDS * count / max(seconds, 1e-9))
        # Grows slowly: the first steps also compile the kernels, so their time says little.
        grown = min(fitting, 4 * count, SUBMIT_STEPS, SUBMIT_BYTES // size)
        self._submit_steps = max(1, grown)

    def _after(self, outputs: Mapping[str, Array], is_end: bool) -> bool:
        """Reports, evaluates and saves if due; returns whether training should end."""
        schedule, step = self._schedule, self._step
        wants_stop = False
        due = any(schedule.is_due(period, step) for period in (schedule.every, schedule.eval_every))
        if due or is_end or self._most is not None:
            wants_stop = self._report(outputs, is_end)
        if self._checkpoint and self._save_is_due():
            self._save()
        if self._recovery and schedule.is_due(schedule.every, step):
            self._recovery.copy_if_due()
        self._most = None if wants_stop or is_end else self._hold()
        wants_stop = wants_stop or self._most == 0
        if wants_stop or self._stop():
            self._history.stopped = "callback" if wants_stop else "stop"
            return True
        return False

    def _hold(self) -> int | None:
        """How many steps callbacks with `hold` allow at once; one that pauses returns later."""
        limits = [getattr(callback, "hold", _nothing)(self._step) for callback in self._callbacks]
        return min((limit for limit in limits if limit is not None), default=None)

    def _report(self, outputs: Mapping[str, Array], is_end: bool) -> bool:
        numbers = {name: float(value) for name, value in outputs.items()}
        due = is_end or self._schedule.is_due(self._schedule.eval_every, self._step)
        results = self._evaluate() if due else {}
        report = Report(self._step, numbers[self._loss], numbers, results, self._pace.ms())
        self._history.reports.append(report)
        if self._log:
            self._log.write(report)
        # Every callback gets the report, even if an earlier one asks to stop.
        return "stop" in [callback(report) for callback in self._callbacks]

    def _save_is_due(self) -> bool:
        period = self._schedule.checkpoint_every
        if period:
            return self._schedule.is_due(period, self._step)
        waited = time.monotonic() - self._saved_at > CHECKPOINT_SECONDS
        return waited and self._schedule.is_due(self._schedule.every, self._step)

    def _save(self) -> None:
        assert self._checkpoint is not None
        self._model.save(self._checkpoint, keep_previous=self._keep_previous)
        self._keep_previous = True
        self._saved_at, self._saved_step = time.monotonic(), self._step


def _nothing(*_: Any) -> None:
    """Stands for `begin` and `end` of callbacks that are functions."""
