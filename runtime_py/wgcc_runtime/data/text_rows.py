"""Texts and conversations as rows of ids and targets, for language models that go on learning.

Texts are packed one behind the other. Each token is a target once, but the first of a text and what
the model is not to learn, such as questions: there the target is `IGNORED`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wgcc_runtime.chat_form import ChatForm, check_messages
from wgcc_runtime.data.encoding import decode
from wgcc_runtime.data.preparation import Data
from wgcc_runtime.data.source import Source
from wgcc_runtime.errors import WgccError
from wgcc_runtime.regular_files import read_regular
from wgcc_runtime.tokens.tokens import Tokens

IGNORED = -100
LINES = (".jsonl", ".ndjson")
# A token, and whether it is to be learned.
Item = tuple[int, bool]


def read_rows(path: Path, tokens: Tokens, chat: ChatForm | None, length: int) -> Data:
    """Rows of `length` tokens of a text, or of the texts and conversations of JSON lines."""
    text = _text(path)
    if path.suffix.lower() in LINES:
        texts = list(_of_lines(text, path, tokens, chat))
    else:
        texts = [[(id_, True) for id_ in tokens.encode(text, special=False)]]
    ids, targets = pack(texts, length)
    if not (targets != IGNORED).any():
        raise WgccError("data", f"{path} holds nothing to learn", str(path))
    return Data({"ids": ids, "targets": targets}, None, len(ids), ("ids", "targets"))


def pack(texts: Sequence[Sequence[Item]], length: int) -> tuple[Any, Any]:
    """Inputs and targets of shape [rows, length]; the end of the last row is filled up."""
    ids: list[int] = []
    targets: list[int] = []
    for text in texts:
        ids += [id_ for id_, _ in text[:-1]]
        targets += [id_ if is_learned else IGNORED for id_, is_learned in text[1:]]
    missing = -len(ids) % length
    ids, targets = ids + [0] * missing, targets + [IGNORED] * missing
    shape = -1, length
    return np.array(ids, np.int32).reshape(shape), np.array(targets, np.int32).reshape(shape)


def conversation(messages: Any, tokens: Tokens, chat: ChatForm) -> list[Item]:
    """The tokens of a conversation, of which answers and their ends are learned."""
    begin = [(id_, False) for id_ in tokens.encode("", "before")]
    joined: list[Item] = []
    for piece, is_answer in chat.pieces(check_messages(messages)):
        joined += [(id_, is_answer) for id_ in tokens.encode(piece, special=False)]
    return begin + joined


def _of_lines(text: str, path: Path, tokens: Tokens, chat: ChatForm | None) -> Iterator[list[Item]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield _items(_parse(line), tokens, chat)
        except (ValueError, RecursionError) as error:
            raise WgccError("data", f"{path}, line {number}: {error}", str(path)) from None


def _parse(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise ValueError(f"no JSON ({error})") from None


def _items(value: Any, tokens: Tokens, chat: ChatForm | None) -> list[Item]:
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return [(id_, True) for id_ in tokens.encode(value["text"], special=False)]
    if not isinstance(value, dict) or "messages" not in value:
        raise ValueError('a line is {"messages": [...]} or {"text": "..."}')
    if chat is None:
        raise ValueError("the model has no chat template that is known; give texts instead")
    return conversation(value["messages"], tokens, chat)


def _text(path: Path) -> str:
    try:
        text = decode(read_regular(path), Source(str(path)))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise WgccError("data", f"cannot read {path}: {reason}", str(path)) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
