"""Text from a language model: converts characters to ids, and calls an entry once for each.

A language model is an entry that takes one id and returns the next; its state holds what it read
before. Characters come from the model's `vocab`, or are bytes of UTF-8 if there are 256 ids.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from wgcc_runtime.batches import check_batch
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import INTEGERS

if TYPE_CHECKING:
    from wgcc_runtime.model import Model
    from wgcc_runtime.plan import Entry, Tensor

BYTES = 256
# Inputs that need not be given.
DEFAULTS = {"temperature": 0.8}


def write(
    model: Model, prompt: str, count: int, entry: str = "decode", /, **inputs: Any
) -> Iterator[str]:
    """Yields the characters after the prompt, `count` ids of them, each as soon as it is known.

    `inputs` are the entry's other inputs, the same in every call. The model continues from its
    current state; errors are raised at once, not with the first character. One text at a time: a
    second one raises code `busy` at its first character.
    """
    spec = model.entry(entry)
    taken, given = _ports(model, spec, inputs)
    read, spell = alphabet(model, spec, taken)
    ids = read(prompt)
    fixed = {name: value for name, value in DEFAULTS.items() if name in spec.inputs} | inputs

    def call(id_: int) -> dict[str, Any]:
        return {taken: np.full(spec.inputs[taken].shape, id_, np.int64), **fixed}

    def step(id_: int) -> int:
        return int(model.call(entry, **call(id_))[given].reshape(()))

    check_batch(call(ids[0]), spec)
    return _characters(model, step, ids, count, spell)


def _characters(
    model: Model,
    step: Callable[[int], int],
    ids: list[int],
    count: int,
    spell: Callable[[int], str],
) -> Iterator[str]:
    with model._writing.use():
        for id_ in ids[:-1]:
            step(id_)
        id_ = ids[-1]
        for _ in range(count):
            id_ = step(id_)
            yield spell(id_)


def _ports(model: Model, spec: Entry, inputs: Mapping[str, Any]) -> tuple[str, str]:
    """The names of the input that takes an id and of the output that returns the next."""
    taken = [name for name, tensor in spec.inputs.items() if is_id(tensor) and name not in inputs]
    given = [name for name, tensor in spec.outputs.items() if is_id(tensor)]
    if len(taken) == 1 and taken[0] in given:
        given = taken
    if len(taken) == len(given) == 1:
        return taken[0], given[0]
    fit = [name for name, other in model.plan.entries.items() if _writes(other)]
    hint = f"; `{fit[0]}` is such an entry" if fit else "; this bundle has no such entry"
    text = f"`{spec.name}` cannot write text: it should take one integer, the id of a character,"
    raise WgccError("text", f"{text} and return the next{hint}", spec.name)


def _writes(spec: Entry) -> bool:
    return all(sum(map(is_id, ports.values())) == 1 for ports in (spec.inputs, spec.outputs))


def is_id(tensor: Tensor) -> bool:
    return tensor.dtype in INTEGERS and prod(tensor.shape) == 1


def alphabet(
    model: Model, spec: Entry, taken: str
) -> tuple[Callable[[str], list[int]], Callable[[int], str]]:
    """How text becomes ids, and an id its character."""
    vocab, bounds = model.plan.vocab, spec.ranges.get(taken)
    # If ids are shifted, or bounded on one side only, their range does not show how many there are.
    if bounds is not None and (bounds.low != 0 or bounds.high >= 2**31 - 1):
        bounds = None
    if not vocab and bounds is not None and bounds.high + 1 == BYTES:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return _encoded, lambda id_: decoder.decode(bytes([id_]))
    if not vocab:
        text = 'the model does not say which character each id is: add `vocab = "…"` to it, with'
        raise WgccError("text", f"{text} one character for each id from 0", spec.name)
    if bounds is not None and bounds.high + 1 != len(vocab):
        text = f"`vocab` has {len(vocab)} characters, but `{spec.name}` takes ids from 0 to"
        raise WgccError("text", f"{text} {bounds.high}", spec.name)
    numbers = {letter: id_ for id_, letter in enumerate(vocab)}
    return lambda prompt: _numbered(prompt, numbers), lambda id_: vocab[id_ : id_ + 1] or "\ufffd"


def _encoded(prompt: str) -> list[int]:
    return list(_not_empty(prompt).encode())


def _numbered(prompt: str, numbers: Mapping[str, int]) -> list[int]:
    unknown = list(dict.fromkeys(letter for letter in prompt if letter not in numbers))
    if unknown:
        are = "which is" if len(unknown) == 1 else "which are"
        letters = ", ".join(map(repr, unknown[:9]))
        text = f"the prompt holds {letters}, {are} not in the model's vocabulary"
        raise WgccError("text", text, "prompt")
    return [numbers[letter] for letter in _not_empty(prompt)]


def _not_empty(prompt: str) -> str:
    if not prompt:
        raise WgccError("text", "the prompt needs at least one character", "prompt")
    return prompt
