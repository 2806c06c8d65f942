"""Tokens of JavaScript, scripts without comments and blanks, and JSON as readable literals.

The source is trusted, because it is ours: what is unclear is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r"(\s*)(?:(?P<comment>//[^\n]*|/\*[\s\S]*?\*/)"
    r"|(?P<string>'(?:[^'\\\n]|\\[\s\S])*'|\"(?:[^\"\\\n]|\\[\s\S])*\")"
    r"|(?P<number>0[xXbBoO]\w+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?n?)"
    r"|(?P<name>#?[\w$]+)"
    r"|(?P<sign>\.\.\.|>>>=|===|!==|\*\*=|<<=|>>=|>>>|&&=|\|\|=|\?\?=|=>|==|!=|<=|>=|&&|\|\||\?\?"
    r"|\?\.(?!\d)|\+\+|--|[-+*/%&|^]=|\*\*|<<|>>|[][{}();,<>+*/%&|^!~?:=.@-])|(?P<other>))"
)
# One part of a template literal: to its end, or to an expression inside it.
_TEMPLATE = re.compile(r"[`}](?:[^`\\$]|\\[\s\S]|\$(?!\{))*(?:`|\$\{)")
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*")
# A slash after one of these words starts a regular expression; after another word it divides.
_BEFORE_REGEX = frozenset((
    "await", "case", "delete", "do", "else", "in", "instanceof", "new", "of", "return", "throw",
    "typeof", "void", "yield",
))  # fmt: skip
_BEFORE_CONDITION = frozenset(("if", "while", "for", "with"))
_CLOSING = {")": "(", "]": "[", "}": "{"}
_BRACKETED = frozenset(("sign", "template"))
# Ends of one token and beginnings of the next that would be read as something else if joined.
_APART = re.compile(r"[\w$][\w$#]|\+\+|--|//|/\*|<!|\?\.|\d\.")
_OPENING = frozenset("([{")


class JavaScriptError(Exception):
    """Text that is not read: a mistake in the source of the runtime."""


class Token(NamedTuple):
    """`depth` counts the brackets around it; `is_new_line`: whether a line break precedes it.

    `kind` is comment, string, number, name, sign, regex, or template, for a part of a literal.
    """

    kind: str
    text: str
    start: int
    depth: int
    is_new_line: bool

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def tokenize(text: str) -> Iterator[Token]:
    """All tokens, comments included, in their order."""
    scopes = _Scopes()
    opened = scopes.opened
    at, length = 0, len(text.rstrip())
    while at < length:
        match = _TOKEN.match(text, at)
        assert match and match.lastgroup
        blank, kind, start = match[1], match.lastgroup, match.end(1)
        if kind == "sign" or kind == "other":
            kind, match = scopes.special(text, start, kind, match)
        if match is None or kind == "other":
            line = text.count("\n", 0, start) + 1
            raise JavaScriptError(f"line {line}: this is not read: {text[start : start + 40]!r}")
        at = match.end()
        token = text[start:at]
        depth = scopes.count(kind, token) if kind in _BRACKETED else len(opened)
        yield Token(kind, token, start, depth, "\n" in blank)
        if kind != "comment":
            scopes.before, scopes.last, scopes.last_kind = scopes.last, token, kind
    if opened:
        raise JavaScriptError(f"{opened[-1]!r} is never closed")


class _Scopes:
    """The brackets that are open, and the last tokens: the meaning of a slash depends on them."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        # For each open parenthesis, whether it is that of a condition, as in `if (…)`.
        self._conditions: list[bool] = []
        self._ends_condition = False
        self.before = self.last = self.last_kind = ""

    def special(
        self, text: str, at: int, kind: str, match: re.Match[str]
    ) -> tuple[str, re.Match[str] | None]:
        """A template or regular expression where one begins or goes on; else what was matched."""
        first = text[at]
        if first == "`" or (first == "}" and self.opened[-1:] == ["${"]):
            return "template", _TEMPLATE.match(text, at)
        if first == "/" and self._starts_regex():
            return "regex", _REGEX.match(text, at)
        return kind, match

    def count(self, kind: str, text: str) -> int:
        """Counts a token's brackets; returns how many are open around it."""
        if kind == "template":
            return self._count_template(text)
        if text in _CLOSING:
            if not self.opened or self.opened.pop() != _CLOSING[text]:
                raise JavaScriptError(f"{text!r} closes nothing")
            if text == ")":
                self._ends_condition = self._conditions.pop()
            return len(self.opened)
        if text in _OPENING:
            self.opened.append(text)
            if text == "(":
                self._conditions.append(self.last in _BEFORE_CONDITION and not self._is_property())
            return len(self.opened) - 1
        return len(self.opened)

    def _count_template(self, text: str) -> int:
        if text[0] == "}":
            self.opened.pop()
        depth = len(self.opened)
        if text.endswith("${"):
            self.opened.append("${")
        return depth

    def _is_property(self) -> bool:
        return self.before in (".", "?.")

    def _starts_regex(self) -> bool:
        """Whether a slash starts a regular expression; otherwise it divides."""
        if self.last_kind == "name":
            return self.last in _BEFORE_REGEX and not self._is_property()
        if self.last_kind == "template":
            return self.last.endswith("${")
        if self.last_kind != "sign":
            return not self.last
        if self.last == "}":
            raise JavaScriptError("a slash after a brace can mean two things: write it otherwise")
        return self._ends_condition if self.last == ")" else self.last not in ("]", "++", "--")


@lru_cache(maxsize=64)
def strip_javascript(text: str) -> str:
    """The same tokens without comments, blank lines and blanks that are not needed.

    Tokens that were on different lines are still on different lines, so that a missing semicolon
    means the same as before, and a stack trace points to a short line. Names stay, too.
    """
    parts: list[str] = []
    last, is_new_line = "", False
    for kind, token, _, _, follows_break in tokenize(text):
        is_new_line = is_new_line or follows_break
        if kind == "comment":
            is_new_line = is_new_line or "\n" in token
            continue
        if is_new_line and last:
            parts.append("\n")
        elif _APART.match(last[-1:] + token[:1]):
            parts.append(" ")
        parts.append(token)
        last, is_new_line = token, False
    return "".join(parts) + "\n"


def strip_css(text: str) -> str:
    """A style sheet of ours, which has no comment sign in a string."""
    lines = re.sub(r"/\*[\s\S]*?\*/", "", text).split("\n")
    return "\n".join(filter(None, map(str.strip, lines))) + "\n"


WIDTH = 100
_NAME = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)


def json_text(text: str) -> str:
    """The same JSON without the titles and descriptions of a JSON Schema."""
    return _literal(_without_prose(json.loads(text)), 0)


def _without_prose(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_prose(item) for item in value]
    if not isinstance(value, dict):
        return value
    # A property of the plan may have such a name, too, but then its value is an object.
    prose = ("$schema", "title", "description")
    kept = {k: v for k, v in value.items() if k not in prose or not isinstance(v, str)}
    return {key: _without_prose(item) for key, item in kept.items()}


def _literal(value: Any, indent: int) -> str:
    line = _line(value)
    if not isinstance(value, list | dict) or indent + len(line) <= WIDTH:
        return line
    inner = indent + 2
    if isinstance(value, list):
        items = [_literal(item, inner) for item in value]
    else:
        items = [f"{_key(key)}: {_literal(item, inner)}" for key, item in value.items()]
    body = "".join(f"{' ' * inner}{item},\n" for item in items)
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return f"{opening}\n{body}{' ' * indent}{closing}"


def _line(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_line, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)}: {_line(item)}' for key, item in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    """Names need no quotes."""
    return key if _NAME.fullmatch(key) else json.dumps(key)
