"""WGSL text as tokens, each with the comment above it."""

from __future__ import annotations

import re
from typing import NamedTuple


class WgslError(ValueError):
    """The text is not in the subset; says what was met, and in which line.

    `reason` is the message without the line, `at` the position in the text, if one is known.
    """

    def __init__(self, message: str, reason: str = "", at: int = 0) -> None:
        super().__init__(message)
        self.reason, self.at = reason or message, at


class WgslToken(NamedTuple):
    """`comment`: the lines above it."""

    text: str
    at: int
    comment: str = ""


_TOKEN = re.compile(
    r"""\s+ | (?P<comment>//[^\n]*) |
    (?P<number>0[xX][0-9a-fA-F]+[iu]? | (?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?[fiuh]?) |
    (?P<name>[A-Za-z_]\w* | \{\w+\}) |
    (?P<sign>->|<<=|>>=|\+\+|--|&&|\|\||[=!<>+*/%&|^-]=|<<|>>|[-+*/%&|^!~<>=(){}\[\],;:.@])
    """,
    re.VERBOSE,
)


def tokenize(text: str) -> list[WgslToken]:
    """The last token is "", the end."""
    at, tokens, comments = 0, list[WgslToken](), list[str]()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise error_at(text, f"`{text[at]}` is not WGSL", at)
        if match.lastgroup == "comment":
            comments.append(match[0][2:].removeprefix(" "))
        elif match.lastgroup:
            tokens.append(WgslToken(match[0], at, "\n".join(comments)))
            comments.clear()
        at = match.end()
    return [*tokens, WgslToken("", at)]


def error_at(text: str, message: str, at: int) -> WgslError:
    line = text.count("\n", 0, at) + 1
    return WgslError(f"{message} (line {line} of {text.strip()[:60]!r})", message, at)
