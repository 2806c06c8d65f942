"""The options of a training of several workers, checked; and where it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from wgcc_runtime.arrays import Array
from wgcc_runtime.data.preparation import Data
from wgcc_runtime.distributed.outer import OuterSettings
from wgcc_runtime.distributed.rounds import SLACK
from wgcc_runtime.distributed.training import TrainingPlan
from wgcc_runtime.distributed.worker import Worker
from wgcc_runtime.drawn import checked_seed
from wgcc_runtime.errors import WgccError, did_you_mean
from wgcc_runtime.fit import check_places, load_resumed, start_progress, training_entry
from wgcc_runtime.flight import exchange_of
from wgcc_runtime.history import Log
from wgcc_runtime.log_folder import log_at
from wgcc_runtime.model import Model
from wgcc_runtime.plan import Entry
from wgcc_runtime.replace_file import previous
from wgcc_runtime.runner import is_scalar
from wgcc_runtime.schedule import checked_count, make_schedule


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `Model.fit`, and how often workers exchange: see `wgcc_runtime.mpi.fit`.

    `notice` gets lines about the workers.
    """

    steps: int
    every: int = 10
    eval: Any = None
    callbacks: Sequence[Callable[..., Any]] = ()
    log: Any = None
    checkpoint: Any = None
    resume: Any = False
    entry: str = "train"
    seed: int | None = None
    eval_every: int | None = None
    checkpoint_every: int | None = None
    stop: Callable[[], bool] | None = None
    sync_every: int | None = None
    outer_lr: float | None = None
    outer_momentum: float | None = None
    sync_slack: float | None = None
    notice: Callable[[str], Any] = lambda _: None

    @property
    def outer(self) -> OuterSettings:
        rate, momentum = self.outer_lr, self.outer_momentum
        return OuterSettings(1.0 if rate is None else rate, 0.0 if momentum is None else momentum)

    @property
    def slack(self) -> float:
        return SLACK if self.sync_slack is None else self.sync_slack

    @property
    def common(self) -> dict[str, Any]:
        """The options that must be equal everywhere, or workers would wait for each other."""
        names = ("entry", "steps", "every", "eval_every", "checkpoint_every", "sync_every")
        equal = {name: getattr(self, name) for name in (*names, "outer_lr", "outer_momentum")}
        unequal = {name: getattr(self, name) is not None for name in ("checkpoint", "eval")}
        return {**equal, **unequal, "resume": self.resume is not False}


def checked_options(given: Mapping[str, Any]) -> Options:
    known = [field.name for field in fields(Options)]
    for name in given:
        if name not in known:
            text = f"fit: `{name}` is not an option{did_you_mean(name, known)}"
            raise WgccError("name", text, name)
    if given.get("steps") is None:
        raise WgccError("data", "fit of several workers needs `steps`: arrays have no end", "steps")
    options = Options(**given)
    checked_seed(options.seed)
    make_schedule(options.steps, options.every, options.eval_every, options.checkpoint_every)
    if options.sync_every is not None:
        checked_count("sync_every", options.sync_every)
    _check_outer(options)
    return options


def _check_outer(options: Options) -> None:
    options.outer.check()
    if not options.slack >= 0:
        text = f"sync_slack is 0 or a positive number, not {options.slack}"
        raise WgccError("range", text, "sync_slack")
    for name in ("outer_lr", "outer_momentum", "sync_slack"):
        if options.sync_every is None and getattr(options, name) is not None:
            text = f"fit: `{name}` is for weights that are exchanged rarely: it needs `sync_every`"
            raise WgccError("data", text, name)


def rows_of(data: Any) -> Mapping[str, Any]:
    """All rows, as a dict of arrays."""
    rows = data.arrays if isinstance(data, Data) else data
    if not isinstance(rows, Mapping):
        kind = type(rows).__name__
        text = f"several workers train on data or a dict of arrays with all rows, not {kind}"
        raise WgccError("data", text, "data")
    return rows


def make_worker(model: Model, options: Options, data: Any) -> Worker:
    entry = training_entry(model, options.entry)
    if options.sync_every is None:
        exchange_of(entry)
    return Worker(model, options.entry, rows_of(data), options.seed or 0)


def loss_of(entry: Entry) -> str:
    watched = [name for name, tensor in entry.outputs.items() if is_scalar(tensor)]
    return "loss" if "loss" in watched else watched[0]


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a training: its `step`, and the facts of the checkpoint that it resumes.

    `keep_previous`: false if the file to replace is damaged, and the previous one was used.
    `velocity`: the momentum of the outer step, of workers that exchange rarely.
    """

    step: int
    is_resumed: bool = False
    keep_previous: bool = True
    notes: tuple[str, ...] = ()
    velocity: Array | None = None


def start(model: Model, options: Options, data: Any) -> Start:
    """Loads the checkpoint to resume from, if there is one; the data begins there, or anew.

    Only where checkpoint and log are written.
    """
    check_places(options.checkpoint, options.log, options.resume)
    checkpoint = load_resumed(model, options.checkpoint, options.resume, data)
    done = start_progress(model, options.entry, checkpoint, options.seed)
    if checkpoint is None:
        return Start(done)
    damaged = options.checkpoint and checkpoint.path == previous(Path(options.checkpoint))
    return Start(done, True, not damaged, checkpoint.notes, checkpoint.velocity)


def training_plan(options: Options, entry: Entry, start: Start) -> TrainingPlan:
    schedule = make_schedule(
        options.steps, options.every, options.eval_every, options.checkpoint_every
    )
    return TrainingPlan(
        entry=options.entry,
        loss=loss_of(entry),
        schedule=schedule if options.resume else schedule.after(start.step),
        sync_every=options.sync_every,
        evaluates=options.eval is not None,
        callbacks=options.callbacks,
        checkpoint=None if options.checkpoint is None else Path(options.checkpoint),
        stop=options.stop or (lambda: False),
        keep_previous=start.keep_previous,
        notes=start.notes,
        notice=options.notice,
    )


def open_log(options: Options, start: Start) -> Log | None:
    if options.log is None:
        return None
    return log_at(options.log, start.step if options.resume else 0)
