"""Turns a conversation into text for a model that chats, with what stands around each message.

It is known from marks in the model's chat template, as llama.cpp does it: a template is a program
of whoever made the file, and is not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wgcc_runtime.errors import WgccError

Message = Mapping[str, str]
ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class ChatForm:
    """Texts before and after the messages of each role. `stop` ends an answer.

    Without texts for `system`, such a message begins the user's first. `default_system` is the
    message of a conversation that has none.
    """

    mark: str
    around: Mapping[str, tuple[str, str]]
    stop: str
    default_system: str = ""

    def pieces(self, messages: Iterable[Message]) -> Iterator[tuple[str, bool]]:
        """Texts in order, and whether each is an answer, with its end, of the assistant."""
        for message in self._with_system(list(messages)):
            before, after = self.around[message["role"]]
            is_answer = message["role"] == "assistant"
            yield before, False
            yield message["content"] + self.stop * is_answer, is_answer
            yield after.removeprefix(self.stop) if is_answer else after, False

    def text(self, messages: Iterable[Message]) -> str:
        return "".join(piece for piece, _ in self.pieces(messages))

    def question(self, messages: Iterable[Message]) -> str:
        """The text that the assistant's next message continues."""
        return self.text(messages) + self.around["assistant"][0]

    def _with_system(self, messages: list[Message]) -> list[Message]:
        is_given = bool(messages) and messages[0]["role"] == "system"
        if not is_given and self.default_system:
            return [{"role": "system", "content": self.default_system}, *messages]
        if not is_given or "system" in self.around:
            return messages
        system, *rest = messages
        if not rest:
            raise WgccError("text", "the model takes no message of the system alone", "messages")
        return [{**rest[0], "content": f"{system['content']}\n\n{rest[0]['content']}"}, *rest[1:]]


def _all_roles(before: str, after: str, names: Iterable[str] = ROLES) -> dict[str, tuple[str, str]]:
    return {
        role: (before.replace("ROLE", name), after) for role, name in zip(ROLES, names, strict=True)
    }


# By a mark that only templates of this form have. The first that is there decides.
FORMS = (
    ChatForm("<|im_start|>", _all_roles("<|im_start|>ROLE\n", "<|im_end|>\n"), "<|im_end|>"),
    ChatForm(
        "<|start_header_id|>",
        _all_roles("<|start_header_id|>ROLE<|end_header_id|>\n\n", "<|eot_id|>"),
        "<|eot_id|>",
    ),
    ChatForm(
        "<start_of_turn>",
        {
            "user": ("<start_of_turn>user\n", "<end_of_turn>\n"),
            "assistant": ("<start_of_turn>model\n", "<end_of_turn>\n"),
        },
        "<end_of_turn>",
    ),
    ChatForm("<|end|>", _all_roles("<|ROLE|>\n", "<|end|>\n"), "<|end|>"),
)
SYSTEM = re.compile(r"<\|im_start\|>system\n([^{}<>|]*)<\|im_end\|>")


def chat_form(template: str) -> ChatForm | None:
    """The form of a chat template, or None for one that is not known."""
    form = next((form for form in FORMS if form.mark in template), None)
    if form is None or form.mark != "<|im_start|>":
        return form
    # What templates of this form insert where a conversation has no message of the system.
    default = SYSTEM.search(template.replace("\\n", "\n"))
    return ChatForm(form.mark, form.around, form.stop, default[1] if default else "")


def check_messages(messages: Any) -> list[dict[str, str]]:
    """Messages of known roles with texts; raises ValueError with what is wrong."""
    if not isinstance(messages, list) or not messages:
        raise ValueError("`messages` is no list of messages")
    for number, message in enumerate(messages, 1):
        if not isinstance(message, dict) or not isinstance(message.get("content"), str):
            raise ValueError(f"message {number} has no `content` that is a text")
        if message.get("role") not in ROLES:
            role, known = message.get("role"), ", ".join(ROLES)
            raise ValueError(f"the role of message {number} is {role!r}, not {known}")
        if message["role"] == "system" and number > 1:
            raise ValueError(f"message {number} is of the system; only the first can be")
    return messages
