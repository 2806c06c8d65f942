"""Saves and restores a model: parameters, state, optimizer moments, progress.

A checkpoint records its model and optimizers. Training resumes from it only if these are the same:
moments of one kind of optimizer mean nothing to another. Settings such as the learning rate are not
compared, because changing them during a training is common.
"""

from __future__ import annotations

import os
import shlex
from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from wgcc_runtime.arrays import Array
from wgcc_runtime.data.preparation import KEY as PREPARATION
from wgcc_runtime.data.preparation import Preparation
from wgcc_runtime.errors import WgccError
from wgcc_runtime.flight import Progress
from wgcc_runtime.left_out import left_out
from wgcc_runtime.plan import Plan
from wgcc_runtime.replace_file import previous
from wgcc_runtime.values import Words, is_optimizer_state, without_moments, words_of
from wgcc_runtime.weights import OUTER, Facts, load_weights, save_weights, with_averages


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of the file at `path`; `notes` are warnings for the user.

    `velocity`: the momentum of the outer step, if workers that exchange rarely have saved it.
    """

    path: Path
    words: Words = field(repr=False)
    progress: Progress
    notes: tuple[str, ...] = ()
    preparation: Preparation | None = None
    velocity: Array | None = field(default=None, repr=False)
    # The parameters and state that the file holds; others are as at the start.
    names: frozenset[str] = field(default=frozenset(), repr=False)


def save_checkpoint(
    path: str | Path,
    plan: Plan,
    arrays: Mapping[str, Array],
    progress: Progress,
    keep_previous: bool = False,
    preparation: Preparation | None = None,
    velocity: Array | None = None,
) -> None:
    """Without state of optimizers in `arrays` it is a weights file, and no step is recorded."""
    facts: Facts = {"model": plan.model, "source": plan.text}
    if any(is_optimizer_state(name) for name in arrays) or not plan.optimizer:
        facts["optimizer"] = _kinds(plan)
        facts["steps"] = progress.steps
        facts["data"] = {"position": progress.position, "seed": progress.seed}
    facts[PREPARATION] = preparation
    # In the same file, so that a crash cannot leave one without the other.
    outer = {} if velocity is None else {OUTER: velocity}
    save_weights(path, {**arrays, **outer}, facts, keep_previous)


def load_checkpoint(
    path: str | Path,
    plan: Plan,
    start: Words,
    weights_only: bool = False,
    weights: str | None = None,
) -> Checkpoint:
    """Words of all persistent tensors. With `weights_only`, optimizers and steps are reset."""
    return _checkpoint(Path(path), load_weights(path), plan, start, weights_only, weights)


def resume_checkpoint(
    path: str | Path,
    plan: Plan,
    start: Words,
    weights_only: bool = False,
    weights: str | None = None,
) -> Checkpoint:
    """As `load_checkpoint`; instead of a damaged file the previous one is used, if it exists."""
    try:
        content = load_weights(path)
    except WgccError as damage:
        older = previous(Path(path))
        if damage.code != "weights" or not os.path.exists(older):
            raise
        checkpoint = load_checkpoint(older, plan, start, weights_only, weights)
        note = f"{damage.message}; used {older} instead, {_age(checkpoint.progress)}"
        return replace(checkpoint, notes=(note, *checkpoint.notes))
    return _checkpoint(Path(path), content, plan, start, weights_only, weights)


def _checkpoint(
    path: Path,
    content: tuple[dict[str, Array], Facts],
    plan: Plan,
    start: Words,
    weights_only: bool,
    weights: str | None,
) -> Checkpoint:
    arrays, facts = content
    if weights is not None:
        arrays, weights_only = with_averages(arrays, weights, path), True
    if not weights_only:
        _check_identity(path, facts, plan)
    words = words_of(without_moments(arrays), plan, str(path))
    preparation = facts.get(PREPARATION)
    _check_complete(path, words, plan)
    if weights_only:
        everything = _over(words, start)
        copies = _copies(everything, plan)
        names = frozenset(words)
        words = _over(words, copies, start)
        return Checkpoint(path, words, Progress(), (), preparation, None, names)
    _check_moments(path, arrays, facts, plan)
    moments = words_of({n: arrays[n] for n in arrays if n not in words}, plan, str(path))
    notes = tuple(f"{path} {note}" for note in _notes(facts, plan))
    names, words = frozenset(words), _over(words, moments, start)
    velocity = facts.get(OUTER)
    return Checkpoint(path, words, _progress(facts), notes, preparation, velocity, names)


def _over(*maps: Words) -> Words:
    """The first of them that has a name; values of the others are not drawn."""
    return ChainMap(*(cast(MutableMapping[str, Array], words) for words in maps))


def _copies(words: Words, plan: Plan) -> Words:
    """State that begins as a copy of a parameter, such as its average."""
    inits = {name: tensor.init for name, tensor in plan.persistent().items()}
    return {name: words[init["of"]] for name, init in inits.items() if init["kind"] == "copy"}


def _check_identity(path: Path, facts: Facts, plan: Plan) -> None:
    """If model or optimizers differ, the error says how, and what can be done."""
    model, saved, wanted = facts.get("model", plan.model), facts.get("optimizer"), _kinds(plan)
    if model != plan.model:
        raise _mismatch(path, f"is of the model `{model}`; this is `{plan.model}`")
    if saved is None or saved == wanted:
        return
    names = [name for name in {**saved, **wanted} if saved.get(name) != wanted.get(name)]
    differ = (
        f"`{name}` was {saved.get(name, 'absent')} and is {wanted.get(name, 'absent')} now"
        for name in names
    )
    raise _mismatch(path, f"was saved with other optimizers: {', '.join(differ)}")


def _check_moments(path: Path, arrays: Iterable[str], facts: Facts, plan: Plan) -> None:
    """All of an optimizer or nothing: a part of it would give steps of the wrong size."""
    moments = {name for name in arrays if is_optimizer_state(name)}
    wanted = {name for name in plan.persistent() if is_optimizer_state(name)}
    if (moments or facts.get("steps")) and moments != wanted:
        name = min(moments ^ wanted)
        how = "has" if name in moments else "lacks"
        raise _mismatch(path, f"was saved with another optimizer: it {how} `{name}`")


def _mismatch(path: Path, what: str) -> WgccError:
    call, option = f"model.load({str(path)!r}, weights_only=True)", shlex.quote(str(path))
    around = f"To start from its weights alone: {call}, or `wgcc train --weights {option}`"
    return WgccError("mismatch", f"{path} {what}. {around}", str(path))


def _check_complete(path: Path, words: Words, plan: Plan) -> None:
    given, omitted = words.keys(), left_out(plan)
    wanted = without_moments(plan.persistent())
    missing = [name for name in wanted if name not in given and name not in omitted]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise WgccError("weights", f"{path} lacks `{missing[0]}`{more}", missing[0])


def _notes(facts: Facts, plan: Plan) -> Iterable[str]:
    if "steps" in facts and "optimizer" not in facts:
        yield "does not record its kind of optimizer; it is assumed to be the same"
    if facts.get("source", plan.text) != plan.text:
        yield (
            f"was saved with another version of the source of `{plan.model}`; names, shapes and "
            "optimizers are the same, so it was loaded"
        )


def _kinds(plan: Plan) -> dict[str, Any]:
    return {name: spec["kind"] for name, spec in plan.optimizer.items()}


def _age(progress: Progress) -> str:
    steps = [f"step {count} of `{entry}`" for entry, count in progress.steps.items() if count]
    return f"saved at {', '.join(steps)}" if steps else "saved before the first step"


def _progress(facts: Mapping[str, Any]) -> Progress:
    data = facts.get("data", {})
    return Progress(dict(facts.get("steps", {})), data.get("position", 0), data.get("seed", 0))
