"""Text from a language model: converts text to ids, and calls an entry once for each.

A language model is an entry that takes one id and returns the next; its state holds what it read
before. Ids are characters or tokens of the model's `vocab`, or bytes of UTF-8 if there are 256.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from wgcc_runtime.arrays import check_batch
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import INTEGERS
from wgcc_runtime.tokens.letters import Alphabet, Utf8

if TYPE_CHECKING:
    from wgcc_runtime.model import Model
    from wgcc_runtime.plan import Entry, Tensor

BYTES = 256
# Inputs that need not be given.
DEFAULTS = {"temperature": 0.8}


def write(
    model: Model, prompt: str, count: int, entry: str = "decode", /, **inputs: Any
) -> Iterator[str]:
    """Yields the text after the prompt, `count` ids of it, each character as soon as it is known.

    `inputs` are the entry's other inputs, the same in every call. The model continues from its
    current state; errors are raised at once, not with the first character. One text at a time: a
    second one raises code `busy` at its first character.
    """
    spec = model.entry(entry)
    taken, given = _ports(model, spec, inputs)
    letters = alphabet(model, spec, taken)
    ids = prompt_ids(letters, prompt)
    fixed = {name: value for name, value in DEFAULTS.items() if name in spec.inputs} | inputs

    def call(id_: int) -> dict[str, Any]:
        return {taken: np.full(spec.inputs[taken].shape, id_, np.int64), **fixed}

    def step(id_: int) -> int:
        return int(model.call(entry, **call(id_))[given].reshape(()))

    check_batch(call(ids[0]), spec)
    return one_text(model, spell(letters, ids, _following(step, ids, count)))


def one_text(model: Model, pieces: Iterator[str]) -> Iterator[str]:
    with model._writing.use():
        yield from pieces


def _following(step: Callable[[int], int], ids: list[int], count: int) -> Iterator[int]:
    for id_ in ids[:-1]:
        step(id_)
    id_ = ids[-1]
    for _ in range(count):
        id_ = step(id_)
        yield id_


def prompt_ids(letters: Alphabet, prompt: str) -> list[int]:
    """The ids of a prompt, without tokens that end a text, because this one goes on. It may be
    empty if a token begins each text."""
    ids = letters.encode(prompt, "before")
    if not ids:
        wrong = (
            "holds nothing of the model's vocabulary" if prompt else "needs at least one character"
        )
        raise WgccError("text", f"the prompt {wrong}", "prompt")
    return ids


def spell(letters: Alphabet, prompt: list[int], ids: Iterable[int]) -> Iterator[str]:
    """The text of ids after a prompt, for each what is new; half a character waits."""
    stream = letters.stream(prompt)
    for id_ in ids:
        yield stream.push(id_)
    rest = stream.end()
    if rest:
        yield rest


def _ports(model: Model, spec: Entry, inputs: Mapping[str, Any]) -> tuple[str, str]:
    """The names of the input that takes an id and of the output that returns the next."""
    taken = [name for name, tensor in spec.inputs.items() if is_id(tensor) and name not in inputs]
    given = [name for name, tensor in spec.outputs.items() if is_id(tensor)]
    if len(taken) == 1 and taken[0] in given:
        given = taken
    if len(taken) == len(given) == 1:
        return taken[0], given[0]
    text = f"`{spec.name}` cannot write text: it should take one integer, the id of a character,"
    raise WgccError("text", f"{text} and return the next{other_entry(model)}", spec.name)


def other_entry(model: Model) -> str:
    """The end of a message about an entry that cannot write: which one can."""
    fit = [name for name, entry in model.plan.entries.items() if _writes(entry)]
    return f"; `{fit[0]}` is such an entry" if fit else "; this bundle has no such entry"


def _writes(spec: Entry) -> bool:
    return all(sum(map(is_id, ports.values())) == 1 for ports in (spec.inputs, spec.outputs))


def is_id(tensor: Tensor) -> bool:
    return tensor.dtype in INTEGERS and prod(tensor.shape) == 1


def alphabet(model: Model, spec: Entry, taken: str) -> Alphabet:
    """How text becomes the ids of an entry, and ids text."""
    vocab, tokens, bounds = model.plan.vocab, model.plan.tokens, spec.ranges.get(taken)
    # If ids are shifted, or bounded on one side only, their range does not show how many there are.
    if bounds is not None and (bounds.low != 0 or bounds.high >= 2**31 - 1):
        bounds = None
    if not vocab and not tokens and bounds is not None and bounds.high + 1 == BYTES:
        return Utf8()
    if not vocab and not tokens:
        text = 'the model does not say which character each id is: add `vocab = "…"` to it, with'
        raise WgccError("text", f"{text} one character for each id from 0", spec.name)
    if tokens and bounds is not None and bounds.high + 1 < tokens.size:
        text = f"`vocab` has ids up to {tokens.size - 1}, but `{spec.name}` takes ids from 0 to"
        raise WgccError("text", f"{text} {bounds.high}", spec.name)
    if vocab and bounds is not None and bounds.high + 1 != len(vocab):
        text = f"`vocab` has {len(vocab)} characters, but `{spec.name}` takes ids from 0 to"
        raise WgccError("text", f"{text} {bounds.high}", spec.name)
    return model.tokens
