"""`fit`: checks what a caller gave, and starts the training loop with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wgcc_runtime.arrays import Array
from wgcc_runtime.batches import DROP, FILL, Length, Source, open_source
from wgcc_runtime.checkpoint import Checkpoint
from wgcc_runtime.data.known_classes import known_form, names_alone
from wgcc_runtime.data.pairs import Pair
from wgcc_runtime.data.preparation import Data, Preparation
from wgcc_runtime.drawn import checked_seed
from wgcc_runtime.early_stopping import EarlyStopping
from wgcc_runtime.errors import WgccError, did_you_mean
from wgcc_runtime.evaluation import make_evaluation
from wgcc_runtime.fit_data import epoch_steps, hold_out, name_inputs
from wgcc_runtime.history import History, Log
from wgcc_runtime.log_folder import WatchedModel, log_at
from wgcc_runtime.plan import Entry, Plan
from wgcc_runtime.progress import choose_progress, is_shown
from wgcc_runtime.recovery import Recovery
from wgcc_runtime.replace_file import check_replaceable
from wgcc_runtime.runner import is_scalar
from wgcc_runtime.schedule import checked_count, make_schedule
from wgcc_runtime.training_loop import Callback, Place, TrainingLoop
from wgcc_runtime.weights import cannot_write

if TYPE_CHECKING:
    from wgcc_runtime.model import Model


@dataclass(frozen=True)
class Options:
    """The arguments of `Model.fit`, where they are described."""

    steps: int | None = None
    epochs: int | None = None
    every: int = 10
    eval: Any = None
    validation: Any = None
    eval_every: int | None = None
    patience: int | None = None
    callbacks: Sequence[Callback] = ()
    progress: bool | None = None
    partial: str | None = None
    log: Place | None = None
    checkpoint: Place | None = None
    checkpoint_every: int | None = None
    resume: bool | Place = False
    entry: str = "train"
    seed: int | None = None
    stop: Callable[[], bool] | None = None
    recover: bool = False


def fit(model: Model, batches: Any, y: Any, options: Options) -> History:
    """Trains an entry and returns what was reported."""
    spec, seed = training_entry(model, options.entry), checked_seed(options.seed)
    given = _checked_callbacks(options.callbacks)
    schedule = make_schedule(
        options.steps, options.every, options.eval_every, options.checkpoint_every
    )
    form = known_form(model, model.preparation, model.has_learned)
    batches = name_inputs(form, spec, batches, y)
    batches, evaluation = hold_out(model.plan, spec, batches, options.eval, options.validation)
    arrays = _checked_data(batches, spec, options.steps, options.epochs)
    check_places(options.checkpoint, options.log, options.resume)
    check_partial(options.partial)
    known = model.preparation
    checkpoint = load_resumed(model, options.checkpoint, options.resume, batches)
    done = start_progress(model, spec.name, checkpoint, seed)
    first = 0 if options.resume else done
    cycle = options.steps is not None or options.epochs is not None
    length = Length(cycle, options.epochs, first, options.partial)
    callbacks = [*given, *_own_callbacks(options, spec, arrays, length)]
    with _refused_data(model, spec.name, known, checkpoint):
        return TrainingLoop(
            model=model,
            entry=spec,
            source=lambda: _source(model, spec, arrays, length),
            schedule=schedule if options.resume else schedule.after(done),
            evaluate=make_evaluation(model, evaluation),
            callbacks=callbacks,
            checkpoint=options.checkpoint,
            resumed=checkpoint,
            stop=options.stop or (lambda: False),
            recovery=_recovery(model, arrays) if options.recover else None,
            epochs=options.epochs,
        ).run(_open_log(model, spec, options.log, done if options.resume else 0))


def _open_log(model: Model, entry: Entry, place: Place | None, step: int) -> Log | None:
    """A log that continues after `step`."""
    return None if place is None else log_at(place, step, WatchedModel(model, entry.name))


@contextmanager
def _refused_data(
    model: Model, entry: str, known: Preparation | None, resumed: Checkpoint | None
) -> Iterator[None]:
    """Data that was refused before the first step leaves no preparation behind."""
    done = model.progress.step(entry)
    try:
        yield
    except WgccError:
        if resumed is None and model.progress.step(entry) == done:
            model.preparation = known
        raise


def _checked_callbacks(callbacks: Any) -> list[Callback]:
    """Those of the caller, several or one."""
    several = [callbacks] if callable(callbacks) else callbacks
    if not isinstance(several, Iterable):
        several = [several]
    checked = list(several)
    for each in checked:
        if not callable(each):
            text = f"fit: `callbacks` holds {each!r}; each is a function of a `Report`"
            raise WgccError("data", text, "callbacks")
    return checked


def _own_callbacks(options: Options, entry: Entry, data: Any, length: Length) -> list[Callback]:
    """Early stopping and the progress line, if they are wanted."""
    callbacks: list[Callback] = []
    if options.patience is not None:
        callbacks.append(EarlyStopping(options.patience))
    if is_shown(options.progress):
        callbacks.append(choose_progress(epoch_steps(data, entry, length)))
    return callbacks


# Options that other libraries have, and what does the same here.
_RATE = (
    '`wgcc.compile(program, constants={"opt.lr": 0.01})` sets the rate, and in the model '
    "`optimizer opt: adam { lr = 0.01 }`"
)
_SIZE = "it is a dim of the model: `wgcc.compile(program, sizes={...})`, or `wgcc build --set`"
_LOSS_WEIGHT = "it is in the model: `cross_entropy(scores, y, weight = w)`"
ELSEWHERE = {
    "lr": _RATE,
    "learning_rate": _RATE,
    "batch_size": _SIZE,
    "early_stopping": "patience=3",
    "max_epochs": "epochs=10",
    "class_weight": _LOSS_WEIGHT,
    "sample_weight": _LOSS_WEIGHT,
    "metrics": "they are outputs of the entry: `-> (loss: f32, acc: f32)`",
    "verbose": "progress=False shows nothing",
    "shuffle": "arrays are shuffled by `seed`; batches of a loader or list keep their order",
    "workers": "`wgcc train --workers 4` trains on several processes or machines",
    "device": "`load` and `wgcc.compile` take it",
    "optimizer": "it is in the model: `optimizer opt: adam { lr = 0.01 }`",
    "loss": "it is in the model: what its entry `train` minimizes",
    "validation_data": "validation=(X, y)",
    "validation_split": "validation=0.2",
}


def refuse_unknown(options: Mapping[str, Any]) -> None:
    """An option that `fit` does not have is an error."""
    known = [field.name for field in fields(Options)]
    for name in options:
        advice = f": {ELSEWHERE[name]}" if name in ELSEWHERE else did_you_mean(name, known)
        raise WgccError("name", f"fit: `{name}` is not an option{advice}", name)


def check_partial(partial: Any) -> None:
    if partial not in (None, DROP, FILL):
        text = f'fit: `partial` is "{DROP}" or "{FILL}", not {partial!r}'
        raise WgccError("data", text, "partial")


def _checked_data(data: Any, entry: Entry, steps: Any, epochs: Any) -> Any:
    """The arrays, iterable or function in what a caller gave."""
    batches = data.inputs if isinstance(data, Pair) else data
    if isinstance(data, Data):
        batches = _fill_batch(data, entry)
    if epochs is not None:
        checked_count("epochs", epochs)
        if steps is not None:
            raise WgccError("data", "fit: `epochs` and `steps` exclude each other", "epochs")
        if callable(batches) and not isinstance(batches, Mapping):
            text = "fit: `epochs` has no meaning: a function gives batches without end, so give"
            raise WgccError("data", f"{text} `steps`", "epochs")
    elif isinstance(batches, Mapping) and steps is None:
        text = "fit needs `steps` or `epochs`: arrays have no end"
        raise WgccError("data", text, "steps")
    return batches


def _fill_batch(data: Data, entry: Entry) -> dict[str, Array]:
    """The arrays of data that was read, at least one batch of them."""
    sizes = [entry.inputs[name].shape[0] for name in data.with_rows if name in entry.inputs]
    return data.repeat_rows(max(sizes, default=0))


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
    resumed = None if place is None else model.load(place, or_previous=True)
    if isinstance(data, Data) or (isinstance(data, Pair) and data.preparation):
        _keep_preparation(model, data, resumed)
    return resumed


def resumed_place(checkpoint: Place | None, resume: bool | Place) -> Place | None:
    if resume is False:
        return None
    path = checkpoint if resume is True else resume
    if path is None:
        raise WgccError("data", "fit: `resume` needs a checkpoint to continue from", "resume")
    return None if resume is True and not Path(path).exists() else path


def _keep_preparation(model: Model, data: Data | Pair, resumed: Checkpoint | None) -> None:
    """The model keeps the preparation of its data; a resumed training must go on with it."""
    if resumed:
        check_preparation(data, resumed)
    model.preparation = kept_preparation(model.preparation, data)


def kept_preparation(known: Preparation | None, data: Data | Pair) -> Preparation | None:
    """The preparation of the data; arrays have none, and keep the class names the model knows."""
    return names_alone(known) if data.preparation is None else data.preparation


def check_preparation(data: Data | Pair, resumed: Checkpoint) -> None:
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
