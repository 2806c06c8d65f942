"""Tokens, raw tree nodes, and the sets of words that the passes over tokens share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wgcc.errors import Source, Span


@dataclass(slots=True)
class Token:
    """A piece of text; `type` is the name of its terminal in the grammar."""

    type: str
    text: str
    start: int
    end: int
    line: int

    def span(self, source: Source) -> Span:
        return Span(source, self.start, self.end)

    def read_as(self, type_: str, text: str | None = None) -> Token:
        """The same place read as another terminal."""
        return Token(type_, self.text if text is None else text, self.start, self.end, self.line)


def token_after(type_: str, text: str, after: Token) -> Token:
    """A token that is not in the text, placed after another."""
    return Token(type_, text, after.end, after.end, after.line)


@dataclass(slots=True)
class RawNode:
    """A raw node: a rule of the grammar as parsed, from which the syntax tree is built."""

    rule: str
    children: list[Any] = field(default_factory=list)
    start: int = -1
    end: int = -1


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The text of a name that is inserted for a missing value.
MISSING_VALUE = ""

OPENERS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = {closer: opener for opener, closer in OPENERS.items()}
CLOSER_TYPES = {"(": "RPAR", "[": "RSQB", "{": "RBRACE"}

# Soft keywords: names wherever the grammar does not expect the keyword.
SOFT = words(
    "wg from as over group test state model entry replace then new when optimizer dtype with remat "
    "step grad"
)

# Keywords that can only begin a line.
LINE_STARTERS = words(
    "layer model entry optimizer param state return for minimize test import frozen replace assert "
    "const group dtype remat"
)
