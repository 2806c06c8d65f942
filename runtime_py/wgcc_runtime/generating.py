"""`generate`: text after a prompt, with a choice among ids. Mirrors generate.js.

The entry takes one id and returns the next, or the scores of all; its state holds what it read.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wgcc_runtime.arrays import check_batch
from wgcc_runtime.drawn import checked_seed
from wgcc_runtime.errors import WgccError
from wgcc_runtime.id_writer import CHOICES, IdWriter
from wgcc_runtime.schedule import checked_count
from wgcc_runtime.tokens.checks import whole_ids
from wgcc_runtime.tokens.letters import Alphabet
from wgcc_runtime.writing import alphabet, one_text, prompt_ids, spell

if TYPE_CHECKING:
    from wgcc_runtime.model import Model

STEPS = 200


def generate(
    model: Model,
    prompt: str | Sequence[int],
    steps: int | None = None,
    max_length: int | None = None,
    stop: str | int | Iterable[str | int] = (),
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    seed: int | None = None,
    entry: str = "decode",
    inputs: Mapping[str, Any] | None = None,
    context: Sequence[int] = (),
) -> Iterator[str]:
    """Yields text after a prompt, a text or ids, as soon as it is known.

    `steps`: ids to write, or `max_length`: of the prompt and these; 200 steps by default.
    `stop`: texts, special tokens or ids before which to end. `temperature` (0: always the
    likeliest), `top_k`, `top_p`, `min_p`, `repetition_penalty` and `seed` are inputs of the entry
    that have these names; else they choose among its scores, as in Hugging Face's transformers.
    `inputs`: other inputs of the entry. If there is an entry `prefill` that takes several ids
    where this one takes one, it reads the prompt in chunks.
    `context`: ids that the model read before, which the penalty is for, too.
    Errors are raised at once, not with the first character.
    One text at a time: a second one raises code `busy` at its first character.
    """
    choices = temperature, top_k, top_p, min_p, repetition_penalty, seed
    given = dict(zip(CHOICES, choices, strict=True))
    options = {name: value for name, value in given.items() if value is not None}
    check_choices(options)
    writer = IdWriter(model, model.entry(entry), options, dict(inputs or {}), context)
    letters = alphabet(model, writer.entry, writer.taken)
    ids = prompt_ids(letters, prompt) if isinstance(prompt, str) else _checked_ids(prompt)
    for name, count in {"steps": steps, "max_length": max_length}.items():
        if count is not None:
            checked_count(name, count, "generate")
    length = STEPS + len(ids) if max_length is None else max_length
    wanted = length - len(ids) if steps is None else steps
    check_batch(writer.batch(ids[0]), writer.entry)
    stops = [stop] if isinstance(stop, str | int) else list(stop)
    return one_text(model, text_after(model, letters, writer, ids, wanted, stops))


def text_after(
    model: Model,
    letters: Alphabet,
    writer: IdWriter,
    ids: list[int],
    steps: int,
    stops: list[str | int],
) -> Iterator[str]:
    """The text after these ids, up to a stop."""
    texts, ends = _stops(model, letters, stops)
    return until_stop(spell(letters, ids, _until_id(writer.ids(ids, steps), ends)), texts)


def _checked_ids(prompt: Sequence[int]) -> list[int]:
    ids = list(whole_ids(prompt))
    if not ids:
        raise WgccError("text", "the prompt needs at least one id", "prompt")
    return ids


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


def check_choices(options: Mapping[str, Any]) -> None:
    """Raises an error unless each of these `CHOICES` is in its range."""
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
    min_p, penalty = options.get("min_p", 0), options.get("repetition_penalty", 1)
    if not 0 <= min_p <= 1:
        raise WgccError("range", f"generate: `min_p` is from 0 to 1, not {min_p!r}", "min_p")
    if not 0 < penalty < math.inf:
        text = f"generate: `repetition_penalty` is a number above 0, not {penalty!r}"
        raise WgccError("range", text, "repetition_penalty")


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
