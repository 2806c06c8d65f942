"""`generate`: text after a prompt, with a choice among ids. Mirrors generate.js.

The entry takes one id and returns the next, or the scores of all; its state holds what it read.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from wgcc_runtime.arrays import check_batch
from wgcc_runtime.choosing import Choice
from wgcc_runtime.drawn import checked_seed
from wgcc_runtime.errors import WgccError
from wgcc_runtime.schedule import checked_count
from wgcc_runtime.tokens.letters import Alphabet
from wgcc_runtime.writing import (
    DEFAULTS,
    alphabet,
    is_id,
    one_text,
    other_entry,
    prompt_ids,
    spell,
)

if TYPE_CHECKING:
    from wgcc_runtime.arrays import Array
    from wgcc_runtime.model import Model
    from wgcc_runtime.plan import Entry, Tensor

STEPS = 200
# Options that an entry may take as inputs.
CHOICES = ("temperature", "top_k", "top_p", "seed")


def generate(
    model: Model,
    prompt: str,
    steps: int | None = None,
    max_length: int | None = None,
    stop: str | int | Iterable[str | int] = (),
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    entry: str = "decode",
    inputs: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """Yields text after a prompt, as soon as it is known.

    `steps`: ids to write, or `max_length`: of the prompt and these; 200 steps by default.
    `stop`: texts, special tokens or ids before which to end. `temperature` (0: always the
    likeliest), `top_k`, `top_p` and `seed` are inputs of the entry that have these names; else they
    choose among its scores.
    `inputs`: other inputs of the entry. Errors are raised at once, not with the first character.
    One text at a time: a second one raises code `busy` at its first character.
    """
    given = dict(zip(CHOICES, (temperature, top_k, top_p, seed), strict=True))
    options = {name: value for name, value in given.items() if value is not None}
    _check(options)
    writer = _Writer(model, model.entry(entry), options, dict(inputs or {}))
    letters = alphabet(model, writer.entry, writer.taken)
    ids = prompt_ids(letters, prompt)
    for name, count in {"steps": steps, "max_length": max_length}.items():
        if count is not None:
            checked_count(name, count, "generate")
    length = STEPS + len(ids) if max_length is None else max_length
    wanted = length - len(ids) if steps is None else steps
    check_batch(writer.batch(ids[0]), writer.entry)
    texts, ends = _stops(model, letters, [stop] if isinstance(stop, str | int) else list(stop))
    pieces = spell(letters, ids, _until_id(writer.ids(ids, wanted), ends))
    return one_text(model, until_stop(pieces, texts))


def _stops(model: Model, letters: Alphabet, stops: list[str | int]) -> tuple[list[str], set[int]]:
    """Texts, and ids: a special token is no part of a text, so that only its id can be seen."""
    texts = [stop for stop in stops if isinstance(stop, str)]
    ends = {operator.index(stop) for stop in stops if not isinstance(stop, str)}
    if model.plan.tokens:
        encodings = [letters.encode(text, False) for text in texts]
        ends.update(ids[0] for ids in encodings if len(ids) == 1 and not letters.decode(ids))
    return texts, ends


def _until_id(ids: Iterable[int], ends: set[int]) -> Iterator[int]:
    for id_ in ids:
        if id_ in ends:
            return
        yield id_


def _check(options: Mapping[str, Any]) -> None:
    checked_seed(options.get("seed"))
    if "top_k" in options:
        checked_count("top_k", options["top_k"], "generate")
    temperature, top_p = options.get("temperature", 1), options.get("top_p", 1)
    if not 0 <= temperature < math.inf:
        text = f"generate: `temperature` is a number from 0, not {temperature!r}"
        raise WgccError("range", text, "temperature")
    if not 0 < top_p <= 1:
        text = f"generate: `top_p` is above 0 and at most 1, not {top_p!r}"
        raise WgccError("range", text, "top_p")


class _Writer:
    """One entry that writes."""

    def __init__(
        self, model: Model, entry: Entry, options: Mapping[str, Any], inputs: dict[str, Any]
    ) -> None:
        self._model, self.entry = model, entry
        self.taken, self._given, self._scores = _ports(model, entry, inputs)
        defaults = {name: value for name, value in DEFAULTS.items() if name in entry.inputs}
        own = {name: value for name, value in options.items() if name in entry.inputs}
        self._fixed = {**defaults, **own, **inputs}
        missing = [name for name in options if name not in self._fixed]
        if missing and self._scores is None:
            raise WgccError("text", _no_effect(entry, missing[0]), missing[0])
        self._chooses = self._given is None or bool(missing)
        self._choice = Choice(
            options.get("temperature", DEFAULTS["temperature"]),
            options.get("top_k"),
            options.get("top_p", 1.0),
            options.get("seed", 0),
        )

    def batch(self, id_: int) -> dict[str, Any]:
        return {self.taken: np.full(self.entry.inputs[self.taken].shape, id_), **self._fixed}

    def ids(self, prompt: list[int], steps: int) -> Iterator[int]:
        for id_ in prompt[:-1]:
            self._call(id_)
        id_ = prompt[-1]
        for step in range(steps):
            id_ = self._next(self._call(id_), step)
            yield id_

    def _call(self, id_: int) -> dict[str, Array]:
        return self._model.call(self.entry.name, **self.batch(id_))

    def _next(self, outputs: Mapping[str, Array], step: int) -> int:
        if not self._chooses and self._given:
            return int(outputs[self._given].reshape(()))
        assert self._scores is not None
        return self._choice.choose(outputs[self._scores], step)


def _no_effect(entry: Entry, option: str) -> str:
    return (
        f"generate: `{option}` has no effect: `{entry.name}` chooses the next id itself. Give it "
        f"an input `{option}`, or let it return the scores of all ids"
    )


def _ports(
    model: Model, entry: Entry, inputs: Mapping[str, Any]
) -> tuple[str, str | None, str | None]:
    """The input that takes an id, and the outputs that return the next, or the scores of all."""
    others = {*inputs, *CHOICES}
    taken = [name for name, tensor in entry.inputs.items() if is_id(tensor) and name not in others]
    given = [name for name, tensor in entry.outputs.items() if is_id(tensor)]
    scores = [name for name, tensor in entry.outputs.items() if _is_scores(tensor)]
    next_ = given[0] if len(given) == 1 else next((n for n in given if n in taken[:1]), None)
    if len(taken) != 1 or (next_ is None and (given or len(scores) != 1)):
        text = f"`{entry.name}` cannot write text: it should take one integer, the id of a"
        text = f"{text} character, and return the next, or the scores of all ids"
        raise WgccError("text", text + other_entry(model), entry.name)
    return taken[0], next_, scores[0] if len(scores) == 1 else None


def _is_scores(tensor: Tensor) -> bool:
    size = math.prod(tensor.shape)
    return tensor.is_float and size > 1 and tensor.shape[-1] == size


def until_stop(pieces: Iterable[str], stops: list[str]) -> Iterator[str]:
    """The text up to the first stop; what may be the beginning of one is kept back."""
    kept = ""
    for piece in pieces:
        kept += piece
        ends = [at for at in map(kept.find, stops) if at >= 0]
        if ends:
            if min(ends):
                yield kept[: min(ends)]
            return
        sure = len(kept) - max((_beginning(kept, stop) for stop in stops), default=0)
        if sure:
            yield kept[:sure]
        kept = kept[sure:]
    if kept:
        yield kept


def _beginning(text: str, stop: str) -> int:
    """How much of the end of a text begins a stop."""
    lengths = range(min(len(stop) - 1, len(text)), 0, -1)
    return next((n for n in lengths if text.endswith(stop[:n])), 0)
