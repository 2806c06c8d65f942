"""A vocabulary of tokens, as a program and its bundle have it.

The error of every reader of vocabularies.
"""

from __future__ import annotations

from dataclasses import dataclass


class Unusable(Exception):
    """A file of tokens cannot be used; the text is the part of the message after its name."""


class UnusableMerge(Unusable):
    """The list of merges cannot be used; it may be a file of its own."""


@dataclass(frozen=True)
class TokenFile:
    """`text` is the bundle's `tokenizer.json`; `size` the highest id plus one."""

    text: str
    size: int
