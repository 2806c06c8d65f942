"""A vocabulary of tokens, as a program and its bundle have it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenFile:
    """`text` is the bundle's `tokenizer.json`; `size` the highest id plus one."""

    text: str
    size: int
