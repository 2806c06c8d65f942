"""Steps from tokens back to text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from wgcc_runtime.tokens.byte_characters import to_bytes
from wgcc_runtime.tokens.growth import check_growth, checked_steps, longest_from
from wgcc_runtime.tokens.pieces import replacement

Step = Mapping[str, Any]
Decode = Callable[[list[str]], list[str]]

BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def decoder(steps: Sequence[Step]) -> Callable[[list[str]], str]:
    functions = [_decoder(step) for step in checked_steps(steps)]

    def decode(tokens: list[str]) -> str:
        most = longest_from(sum(map(len, tokens)))
        for function in functions:
            tokens = function(tokens)
            check_growth(tokens, most)
        return "".join(tokens)

    return decode


def _decoder(step: Step) -> Decode:
    kind = step["type"]
    if kind == "Replace":
        replace = replacement(step)
        return lambda tokens: [replace(token) for token in tokens]
    if kind == "Strip":
        return lambda tokens: [_strip(token, step) for token in tokens]
    if kind == "Metaspace":
        return lambda tokens: [
            _restore_spaces(token, step, number == 0) for number, token in enumerate(tokens)
        ]
    if kind == "WordPiece":
        return lambda tokens: [*tokens[:1], *(_word_piece(token, step) for token in tokens[1:])]
    return _SIMPLE[kind]


def _bytes_to_text(tokens: list[str]) -> list[str]:
    return [b"".join(map(to_bytes, tokens)).decode("utf-8", "replace")]


def _byte_fallback(tokens: list[str]) -> list[str]:
    decoded: list[str] = []
    for is_byte, run in groupby(tokens, key=lambda token: BYTE.fullmatch(token) is not None):
        tokens_of_run = list(run)
        numbers = [int(token[3:5], 16) for token in tokens_of_run] if is_byte else []
        decoded += [_text_of(numbers)] if is_byte else tokens_of_run
    return decoded


def _text_of(numbers: list[int]) -> str:
    try:
        return bytes(numbers).decode()
    except UnicodeDecodeError:
        return "\ufffd" * len(numbers)


def _strip(token: str, step: Step) -> str:
    start = min(step["start"], len(token) - len(token.lstrip(step["text"])))
    token = token[start:]
    stop = min(step["stop"], len(token) - len(token.rstrip(step["text"])))
    return token[: len(token) - stop]


def _word_piece(token: str, step: Step) -> str:
    prefix = step["prefix"]
    return token[len(prefix) :] if token.startswith(prefix) else " " + token


def _restore_spaces(token: str, step: Step, first: bool) -> str:
    space = "" if first and step["prepend"] != "never" else " "
    return token.replace(step["replacement"], space)


_SIMPLE: Mapping[str, Decode] = {
    "ByteLevel": _bytes_to_text,
    "ByteFallback": _byte_fallback,
    "Fuse": lambda tokens: ["".join(tokens)],
    "Spaces": lambda tokens: [" ".join(tokens)],
}
