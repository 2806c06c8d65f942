"""The training loop: several steps per submit; reports, evaluation and checkpoints between them."""

from __future__ import annotations

import contextlib
import inspect
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wgcc_runtime.arrays import Array
from wgcc_runtime.batches import Batch, Length, Source, open_source
from wgcc_runtime.checkpoint import Checkpoint
from wgcc_runtime.data.known_classes import names_alone
from wgcc_runtime.data.preparation import Data, Preparation
from wgcc_runtime.drawn import checked_seed
from wgcc_runtime.errors import WgccError, did_you_mean
from wgcc_runtime.evaluation import Evaluate, make_evaluation
from wgcc_runtime.history import History, Log, Pace, Report
from wgcc_runtime.plan import Entry, Plan
from wgcc_runtime.recovery import Recovery
from wgcc_runtime.replace_file import check_replaceable, previous
from wgcc_runtime.runner import is_scalar
from wgcc_runtime.schedule import Schedule, counted, make_schedule
from wgcc_runtime.weights import cannot_write

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


def fit(
    model: Model,
    batches: Any,
    steps: int | None = None,
    every: int = 10,
    eval: Any = None,
    callbacks: Sequence[Callback] = (),
    log: Place | None = None,
    checkpoint: Place | None = None,
    resume: bool | Place = False,
    entry: str = "train",
    seed: int | None = None,
    eval_every: int | None = None,
    checkpoint_every: int | None = None,
    stop: Callable[[], bool] | None = None,
    recover: bool = False,
    epochs: int | None = None,
) -> History:
    """Trains an entry and returns what was reported.

    `batches`: what `read_data` returns, a dict of arrays (rows are shuffled by `seed`), an iterable
    of dicts (started over if it can be; a generator is closed), or a function of the step's number.
    `steps`: how many more; with `resume`, how many in all. None: until the data ends. `epochs`:
    instead, passes over the data (not for a function). `every`: steps between reports.
    `eval`: a function of the model, or data for the entry `eval`; each `eval_every`.
    `callbacks`: called with each `Report`; "stop" ends the training. `stop`: after each submit.
    `checkpoint`: where to save, from time to time and at the end; `resume` continues from there (or
    from the file it names) if it exists.
    `recover`: after a lost device, continue on a new one from a copy (not with an iterator).
    """
    spec, seed = training_entry(model, entry), checked_seed(seed)
    schedule = make_schedule(steps, every, eval_every, checkpoint_every)
    arrays = _checked_data(batches, spec, steps, epochs)
    check_places(checkpoint, log, resume)
    found = load_resumed(model, checkpoint, resume, batches)
    done = start_progress(model, entry, found, seed)
    length = Length(steps is not None or epochs is not None, epochs, 0 if resume else done)
    return _Loop(
        model=model,
        entry=spec,
        source=lambda: _source(model, spec, arrays, length),
        schedule=schedule if resume else schedule.after(done),
        evaluate=make_evaluation(model, eval),
        callbacks=callbacks,
        checkpoint=checkpoint,
        resumed=found,
        stop=stop or (lambda: False),
        recovery=_recovery(model, arrays) if recover else None,
        epochs=epochs,
    ).run(None if log is None else Log(log, done if resume else 0))


def checked_options(options: dict[str, Any]) -> dict[str, Any]:
    """An option that `fit` does not have is an error."""
    known = [*inspect.signature(fit).parameters][2:]
    for name in options:
        if name not in known:
            text = f"fit: `{name}` is not an option{did_you_mean(name, known)}"
            raise WgccError("name", text, name)
    return options


def _checked_data(data: Any, entry: Entry, steps: Any, epochs: Any) -> Any:
    """The arrays, iterable or function in what a caller gave."""
    batches = _repeated(data, entry) if isinstance(data, Data) else data
    if epochs is not None:
        counted("epochs", epochs)
        if steps is not None:
            raise WgccError("data", "fit: `epochs` and `steps` exclude each other", "epochs")
        if callable(batches) and not isinstance(batches, Mapping):
            text = "fit: `epochs` has no meaning: a function gives batches without end, so give"
            raise WgccError("data", f"{text} `steps`", "epochs")
    elif isinstance(batches, Mapping) and steps is None:
        text = "fit needs `steps` or `epochs`: arrays have no end"
        raise WgccError("data", text, "steps")
    return batches


def _repeated(data: Data, entry: Entry) -> dict[str, Array]:
    """The arrays of data that was read, at least one batch of them."""
    sizes = [entry.inputs[name].shape[0] for name in data.with_rows if name in entry.inputs]
    return data.repeated(max(sizes, default=0))


def check_places(checkpoint: Any, log: Any, resume: Any) -> None:
    """Checked before training, which would be lost if its result could not be written."""
    for name, place in {"checkpoint": checkpoint, "log": log, "resume": resume}.items():
        is_path = isinstance(place, str | os.PathLike) and Path(place).name
        if not (place is None or is_path or (name == "resume" and isinstance(place, bool))):
            raise WgccError("data", f"fit: `{name}` is {place!r}, not the name of a file", name)
    if checkpoint is not None:
        try:
            check_replaceable(Path(checkpoint))
        except (OSError, ValueError) as error:
            raise cannot_write("weights", checkpoint, error) from None


def training_entry(model: Model, name: str) -> Entry:
    return check_training(model.plan, model.entry(name).name)


def check_training(plan: Plan, name: str) -> Entry:
    """An entry that `fit` can train."""
    if name not in plan.entries:
        near = did_you_mean(name, plan.entries)
        raise WgccError("name", f"the model has no entry `{name}`{near}", name)
    entry = plan.entries[name]
    if not entry.training:
        text = f"the entry `{name}` does not train: it updates no parameter by a gradient"
        raise WgccError("name", text, name)
    if not any(is_scalar(tensor) for tensor in entry.outputs.values()):
        raise WgccError("name", f"the entry `{name}` returns no loss (a float scalar)", name)
    return entry


def start_progress(model: Model, entry: str, resumed: Checkpoint | None, seed: int | None) -> int:
    """Prepares the progress; returns how many steps were made before."""
    progress = model.progress
    # A run that is not resumed reads the data from its beginning.
    progress.position = resumed.progress.position if resumed else 0
    progress.seed = progress.seed if seed is None else seed
    return progress.step(entry)


def load_resumed(
    model: Model, checkpoint: Place | None, resume: bool | Place, data: Any
) -> Checkpoint | None:
    """Loads the checkpoint to resume from, if there is one; the model keeps the preparation."""
    place = resumed_place(checkpoint, resume)
    found = None if place is None else model.load(place, or_previous=True)
    if isinstance(data, Data):
        _keep_preparation(model, data, found)
    return found


def resumed_place(checkpoint: Place | None, resume: bool | Place) -> Place | None:
    if resume is False:
        return None
    path = checkpoint if resume is True else resume
    if path is None:
        raise WgccError("data", "fit: `resume` needs a checkpoint to continue from", "resume")
    return None if resume is True and not Path(path).exists() else path


def _keep_preparation(model: Model, data: Data, resumed: Checkpoint | None) -> None:
    """What the data was prepared by belongs to the model; a resumed training must go on with it."""
    if resumed:
        check_preparation(data, resumed)
    model.preparation = kept_preparation(model.preparation, data)


def kept_preparation(known: Preparation | None, data: Data) -> Preparation | None:
    """That of the data; of arrays, which have none, the names of classes that the model knows."""
    return names_alone(known) if data.preparation is None else data.preparation


def check_preparation(data: Data, resumed: Checkpoint) -> None:
    if resumed.preparation not in (None, kept_preparation(resumed.preparation, data)):
        raise WgccError(
            "data",
            f"{resumed.path} was trained with data that was prepared in another way (its columns, "
            "classes or scaling differ): continue with the same data and options, or start anew",
        )


def _recovery(model: Model, batches: Any) -> Recovery | None:
    # Batches that were taken from an iterator cannot be read again.
    return None if isinstance(batches, Iterator) else Recovery(model)


def _source(model: Model, entry: Entry, batches: Any, length: Length) -> Source:
    """The data from the model's current position."""
    progress = model.progress
    step = progress.step(entry.name)
    if isinstance(batches, Mapping):
        # Several workers, whose checkpoint this may be, have taken several batches in each step.
        step = max(step, progress.position)
    return open_source(batches, entry, progress.seed, step, progress.position, length)


class _Loop:
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
        self._pace = Pace()
        self._saved_at = time.monotonic()
        self._saved_step = -1

    def run(self, log: Log | None) -> History:
        self._log = log
        try:
            while not self._done():
                pass
            if self._checkpoint and self._saved_step != self._step:
                self._save()
        except WgccError as error:
            self._end(error)
            raise
        finally:
            if log:
                log.close()
            self._source.close()
        return self._history

    def _end(self, error: WgccError) -> None:
        """What can still be done when the training cannot continue."""
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

    def _done(self) -> bool:
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
            started, step = time.perf_counter(), self._step
            flight = self._launcher.start(batches, from_data=True)
            # The host prepares the next batches while the GPU works.
            following = self._take(step + len(batches))
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
        found: list[Batch] = []
        while len(found) < count and not self._failure:
            try:
                batch = self._source.take()
            except BaseException as failure:
                self._failure = failure
                break
            if batch is None:
                break
            found.append(batch)
        return found

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
        if due or is_end:
            wants_stop = self._report(outputs, is_end)
        if self._checkpoint and self._save_is_due():
            self._save()
        if self._recovery and schedule.is_due(schedule.every, step):
            self._recovery.copy_if_due()
        if wants_stop or self._stop():
            self._history.stopped = "callback" if wants_stop else "stop"
            return True
        return False

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
