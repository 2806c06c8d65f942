"""JavaScript without comments and blanks, for what pages load. Names and line breaks stay.

Tokens that were on different lines are still on different lines, so that a missing semicolon means
the same as before, and a stack trace points to a short line. The source is trusted: it is ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_BLANK = re.compile(r"(?:\s|//[^\n]*|/\*[\s\S]*?\*/)+")
# A part of a template literal: to its end, or to an expression inside it.
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\[\s\S]|\$(?!\{))*(?:`|\$\{)")
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*")
_WORD = re.compile(r"#?[\w$]+")
# Texts, numbers, words and signs.
_PLAIN = re.compile(
    r"'(?:[^'\\\n]|\\[\s\S])*'"
    r'|"(?:[^"\\\n]|\\[\s\S])*"'
    r"|0[xXbBoO]\w+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?n?"
    r"|#?[\w$]+"
    r"|\.\.\.|>>>=|===|!==|\*\*=|<<=|>>=|>>>|&&=|\|\|=|\?\?=|=>|==|!=|<=|>=|&&|\|\||\?\?|\?\.(?!\d)"
    r"|\+\+|--|[-+*/%&|^]=|\*\*|<<|>>|[][{}();,<>+*/%&|^!~?:=.@-]"
)
# A slash after one of these words starts a regular expression; after another word it divides.
_BEFORE_REGEX = (
    "await", "case", "delete", "do", "else", "in", "instanceof", "new", "of", "return", "throw",
    "typeof", "void", "yield",
)  # fmt: skip
# Ends of one token and beginnings of the next that would be read as something else if joined.
_APART = re.compile(r"[\w$][\w$#]|\+\+|--|//|/\*|<!|\?\.|\d\.")


class StripError(Exception):
    """Text that is not read: a mistake in the source of the runtime."""


@lru_cache(maxsize=64)
def strip_javascript(text: str) -> str:
    """The same tokens without comments, blank lines and blanks that are not needed."""
    parts: list[str] = []
    last = ""
    for token, is_new_line in tokens(text):
        if is_new_line and last:
            parts.append("\n")
        elif _APART.match(last[-1:] + token[:1]):
            parts.append(" ")
        parts.append(token)
        last = token
    return "".join(parts) + "\n"


def strip_css(text: str) -> str:
    """A style sheet of ours, which has no comment sign in a string."""
    lines = re.sub(r"/\*[\s\S]*?\*/", "", text).split("\n")
    return "\n".join(filter(None, map(str.strip, lines))) + "\n"


def tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Each token, and whether a line break precedes it."""
    at = 0
    last = ""
    # For each open brace, whether it is that of an expression in a template literal.
    braces: list[bool] = []
    while True:
        blank = _BLANK.match(text, at)
        at = blank.end() if blank else at
        if at == len(text):
            return
        is_new_line = bool(blank and "\n" in blank[0])
        token = _token(text, at, last, braces)
        at += len(token)
        yield token, is_new_line
        last = token


def _token(text: str, at: int, last: str, braces: list[bool]) -> str:
    first = text[at]
    if first == "`" or (first == "}" and braces and braces[-1]):
        if first == "}":
            braces.pop()
        rest = _TEMPLATE.match(text, at + 1)
        token = first + rest[0] if rest else ""
        if token.endswith("${"):
            braces.append(True)
    else:
        token = _plain_token(text, at, last)
        if token == "{":
            braces.append(False)
        elif token == "}" and braces:
            braces.pop()
    if not token:
        line = text.count("\n", 0, at) + 1
        raise StripError(f"line {line}: this is not read: {text[at : at + 40]!r}")
    return token


def _plain_token(text: str, at: int, last: str) -> str:
    is_regex = text[at] == "/" and _starts_regex(last)
    found = (_REGEX if is_regex else _PLAIN).match(text, at)
    return found[0] if found else ""


def _starts_regex(last: str) -> bool:
    """Whether a slash after this token starts a regular expression; otherwise it divides."""
    if last == "}":
        raise StripError("a slash after a brace can mean two things: write it in another way")
    if _WORD.fullmatch(last):
        return last in _BEFORE_REGEX
    # What is left ends a value or is an operator. After `if (…)`, none may follow.
    return not (last[-1:] in (")", "]", "'", '"', "`") or last[:1].isdigit() or _is_regex(last))


def _is_regex(token: str) -> bool:
    return len(token) > 2 and token[0] == "/"
