"""Finds where JSON text is broken: the first character that cannot continue it.

Used after the ordinary parser refused a text; JavaScript's parsers report no place, or each their
own.
"""

from __future__ import annotations

import re

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_CLOSE = {"[": "]", "{": "}"}


def broken_at(text: str) -> tuple[int, int]:
    """Line and column of the first token that does not fit."""
    at = _Walk(text).find_break()
    before = re.split(r"\r\n|\r|\n", text[:at])
    return len(before), len(before[-1]) + 1


class _Walk:
    """Goes over the tokens with a stack of open brackets instead of recursion."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._open: list[str] = []

    def find_break(self) -> int:
        """The position; the length of the text if it ends too early."""
        expected = "value"
        while expected != "end":
            self._skip()
            following = self._step(expected)
            if following is None:
                return self._at
            expected = following
        self._skip()
        return self._at

    def _skip(self) -> None:
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at

    def _step(self, expected: str) -> str | None:
        """Takes one token; returns what may follow it, or None if it does not fit."""
        letter = self._text[self._at : self._at + 1]
        if expected in ("value", "value or ]"):
            return self._value(letter, expected == "value or ]")
        if expected in ("key", "key or }"):
            if expected == "key or }" and letter == "}":
                return self._close()
            return "colon" if self._take(_STRING) else None
        if expected == "colon":
            return self._letter(letter == ":", "value")
        inside = self._open[-1]
        if letter == _CLOSE[inside]:
            return self._close()
        return self._letter(letter == ",", "value" if inside == "[" else "key")

    def _value(self, letter: str, may_close: bool) -> str | None:
        if may_close and letter == "]":
            return self._close()
        if letter and letter in _CLOSE:
            self._open.append(letter)
            self._at += 1
            return "value or ]" if letter == "[" else "key or }"
        return self._after() if self._take(_STRING) or self._take(_PLAIN) else None

    def _close(self) -> str:
        self._open.pop()
        self._at += 1
        return self._after()

    def _after(self) -> str:
        return "comma" if self._open else "end"

    def _letter(self, fits: bool, following: str) -> str | None:
        if not fits:
            return None
        self._at += 1
        return following

    def _take(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self._text, self._at)
        if match:
            self._at = match.end()
        return match is not None
