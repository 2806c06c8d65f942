"""`Chat`: a conversation with a language model that keeps what it read. Mirrors chat.js."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from wgcc_runtime.chat_form import ChatForm, chat_form
from wgcc_runtime.errors import WgccError
from wgcc_runtime.generating import check_choices, text_after
from wgcc_runtime.id_writer import CHOICES, IdWriter, chunk_of
from wgcc_runtime.schedule import checked_count
from wgcc_runtime.writing import alphabet, one_text

if TYPE_CHECKING:
    from wgcc_runtime.model import Model

FORGET, DECODE = "forget", "decode"
# An answer has as much room, at least, as a part of the cache.
ROOM = 4
MOST_STEPS = 1024
# Ids that are as quick to read as a chunk.
FEW = 3
# As in llama.cpp.
DEFAULTS = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}


class Chat:
    """A conversation. `messages` are dicts of `role` and `content`, as other libraries have them.

    `template` is the model's chat template, of which the form is known by its marks: it is not run.
    `options` are those of `generate`: `temperature`, `top_k`, `top_p`, `min_p`,
    `repetition_penalty`, `seed`; each answer has random numbers of its own. `steps`: ids of an
    answer at most. The cache of the model bounds what it reads: if a conversation becomes longer,
    its oldest messages are left out.
    """

    def __init__(
        self,
        model: Model,
        template: str,
        system: str = "",
        stop: str | int | Iterable[str | int] = (),
        steps: int = MOST_STEPS,
        **options: Any,
    ) -> None:
        self.model, self.system = model, system
        self._form = _form(template)
        own = [stop] if isinstance(stop, str | int) else list(stop)
        self._stops: list[str | int] = [self._form.stop, *own]
        self.steps = checked_count("steps", steps, "Chat")
        self._options = _choices(options)
        chunk = chunk_of(model, model.entry(DECODE))
        self._chunk = 0 if chunk is None else next(iter(chunk.inputs.values())).size
        self._counter, self.context = counter_of(model), context_of(model)
        self.messages: list[dict[str, str]] = []
        # How many of the oldest messages the model does not see.
        self.left_out = 0
        # Whether the last answer ended because the cache was full, or the number of steps reached.
        self.is_cut = False
        self._answers = 0
        # Ids in the cache.
        self._read: list[int] = []

    def reset(self) -> None:
        """Forgets all messages."""
        self.messages, self.left_out = [], 0

    def ask(self, text: str) -> Iterator[str]:
        """The answer, piece by piece. Closing the iterator ends it; what was written stays."""
        question = {"role": "user", "content": text}
        left_out, ids = self._shorten([*self.messages, question])
        return one_text(self.model, self._answer(question, left_out, ids))

    def _answer(self, question: dict[str, str], left_out: int, ids: list[int]) -> Iterator[str]:
        before, rest = self._split(ids)
        writer = self._writer(before)
        letters = alphabet(self.model, writer.entry, writer.taken)
        # The last id of an answer need not be read.
        steps = min(self.steps, self.context - len(ids) + 1)
        text = ""
        try:
            for piece in text_after(self.model, letters, writer, rest, steps, self._stops):
                text += piece
                yield piece
            self.is_cut = writer.is_at_end
        finally:
            self._read, self._answers = writer.read, self._answers + 1
            if text or writer.count:
                self.left_out = left_out
                self.messages += [question, {"role": "assistant", "content": text}]

    def _writer(self, before: list[int]) -> IdWriter:
        seed = (self._options["seed"] + self._answers) % 2**32
        options = {**self._options, "seed": seed}
        return IdWriter(self.model, self.model.entry(DECODE), options, {}, before)

    def _shorten(self, messages: list[dict[str, str]]) -> tuple[int, list[int]]:
        """How many messages must be left out, and the ids of the others."""
        for left_out in range(self.left_out, len(messages), 2):
            ids = self._ids(messages[left_out:])
            if len(ids) + self.context // ROOM <= self.context:
                return left_out, ids
        if len(ids) < self.context:
            return left_out, ids
        text = f"the message is too long: with what stands around it, it has {len(ids)} tokens; the"
        text = f"{text} model's cache holds {self.context}"
        raise WgccError("text", f"{text} (build it with a larger S, such as --set S=2048)", "text")

    def _ids(self, messages: list[dict[str, str]]) -> list[int]:
        system = [{"role": "system", "content": self.system}] if self.system else []
        return self.model.tokens.encode(self._form.question([*system, *messages]), "before")

    def _split(self, ids: list[int]) -> tuple[list[int], list[int]]:
        """The ids that stay in the cache, and those to read; at least one is read."""
        used = int(self.model.parameters[self._counter])
        # Something else may have used the model, or a call may have been left.
        known = self._read[:used] if used <= len(self._read) else []
        pairs = zip(known, ids[:-1], strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        same -= _read_again(len(ids) - 1 - same, same, self._chunk)
        if same != used:
            self.model.load_params({self._counter: same}, strict=False)
        return ids[:same], ids[same:]


def _form(template: str) -> ChatForm:
    form = chat_form(template)
    if form is None:
        text = "the model's chat template has none of the marks of ChatML, Llama 3, Gemma and Phi 3"
        raise WgccError("text", f"{text}: use `generate`", "template")
    return form


def _choices(options: dict[str, Any]) -> dict[str, Any]:
    wrong = sorted(set(options) - set(CHOICES))
    if wrong:
        text = f"Chat: there is no option `{wrong[0]}`; there are: {', '.join(CHOICES)}"
        raise WgccError("name", text, wrong[0])
    check_choices(options)
    return {"seed": 0, **DEFAULTS, **options}


def _read_again(rest: int, known: int, chunk: int) -> int:
    """How many known ids fill up the last chunk: to read it takes as long as a few ids."""
    missing = -rest % chunk if chunk else 0
    return missing if missing <= known and missing < chunk - FEW else 0


def counter_of(model: Model) -> str:
    """The state that `forget` sets to zero: how many tokens the cache holds."""
    forget = model.plan.entries.get(FORGET)
    if forget is None or len(forget.writes) != 1:
        text = f"the model cannot chat: it has no entry `{FORGET}` that empties its cache, as those"
        raise WgccError("text", f"{text} that `wgcc import` makes of GGUF files have", FORGET)
    return forget.writes[0]


def context_of(model: Model) -> int:
    """How many tokens the cache holds."""
    guard = model.entry(DECODE).range_guard
    if guard is None:
        raise WgccError("text", f"the model cannot chat: `{DECODE}` fills no cache", DECODE)
    return min(check.allowed.high for check in guard.checks) + 1
