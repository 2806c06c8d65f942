"""Calls the entry that writes text, once for each id, and the one that reads prompts in chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wgcc_runtime.choosing import Choice
from wgcc_runtime.errors import WgccError
from wgcc_runtime.writing import DEFAULTS, is_id, other_entry

if TYPE_CHECKING:
    from wgcc_runtime.arrays import Array
    from wgcc_runtime.model import Model
    from wgcc_runtime.plan import Entry, Tensor

# Options that an entry may take as inputs.
CHOICES = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
PREFILL = "prefill"


class IdWriter:
    """One entry that writes. `before`: ids that were read before the prompt."""

    def __init__(
        self,
        model: Model,
        entry: Entry,
        options: Mapping[str, Any],
        inputs: dict[str, Any],
        before: Sequence[int] = (),
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
        chosen = {name: options[name] for name in CHOICES if name in options}
        self._choice = Choice(**{**DEFAULTS, **chosen})
        self._chunk = None if self._fixed else chunk_of(model, entry)
        # Ids that were given to the model, and how many were written.
        self.read, self.count = list(before), 0
        # Whether all steps were made, and nothing ended the text before.
        self.is_at_end = False

    def batch(self, id_: int) -> dict[str, Any]:
        return {self.taken: np.full(self.entry.inputs[self.taken].shape, id_), **self._fixed}

    def ids(self, prompt: list[int], steps: int) -> Iterator[int]:
        for id_ in prompt[self._read_chunks(prompt) : -1]:
            self._call(id_)
        id_ = prompt[-1]
        for step in range(steps):
            id_ = self._next(self._call(id_), step)
            self.count += 1
            yield id_
        self.is_at_end = True

    def _read_chunks(self, prompt: list[int]) -> int:
        """How many ids whole chunks have; the last id is not among them, as its scores count."""
        if self._chunk is None:
            return 0
        (name, tensor), end = next(iter(self._chunk.inputs.items())), 0
        while end + tensor.size < len(prompt):
            part = prompt[end : end + tensor.size]
            self.read += part
            self._model.call(self._chunk.name, **{name: np.array(part, np.int32)})
            end += tensor.size
        return end

    def _call(self, id_: int) -> dict[str, Array]:
        self.read.append(id_)
        return self._model.call(self.entry.name, **self.batch(id_))

    def _next(self, outputs: Mapping[str, Array], step: int) -> int:
        if not self._chooses and self._given:
            return int(outputs[self._given].reshape(()))
        assert self._scores is not None
        return self._choice.choose(outputs[self._scores], step, self.read)


def chunk_of(model: Model, entry: Entry) -> Entry | None:
    """The entry `prefill`, if it takes several ids, and changes what the one that writes does."""
    prefill = model.plan.entries.get(PREFILL)
    if prefill is None or prefill.training or len(prefill.inputs) != 1:
        return None
    (ids,) = prefill.inputs.values()
    takes_ids = ids.dtype in ("i32", "u32") and len(ids.shape) == 1 and ids.size > 1
    return prefill if takes_ids and set(prefill.writes) == set(entry.writes) else None


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
