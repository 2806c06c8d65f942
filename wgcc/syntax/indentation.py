"""Indentation, and what a line begins with.

They have no meaning in the language, and are only used to guess what was meant where brackets do
not match.
"""

from __future__ import annotations

from wgcc.errors import Source
from wgcc.syntax.tokens import LINE_STARTERS, SOFT, Token

_TAB = 4


def indentation(source: Source, token: Token) -> int:
    """The indentation of the line of `token`."""
    return len(source.line_indent(token.line).expandtabs(_TAB))


def begins_line(tokens: list[Token], index: int) -> bool:
    return tokens[index].type != "_NL" and (index == 0 or tokens[index - 1].type == "_NL")


def starts_item(tokens: list[Token], index: int) -> bool:
    """Is this a keyword that can only begin a statement, member or item?"""
    token = tokens[index]
    if token.type in ("NAME", "STRING") or token.text not in LINE_STARTERS | {"fn", "dim"}:
        return False
    following = tokens[index + 1] if index + 1 < len(tokens) else token
    return token.text not in SOFT or following.type in ("NAME", "STRING")


def starts_binding(tokens: list[Token], index: int) -> bool:
    """`a = `, `a, b = `, `a.b := `, `a: `: what cannot be inside a bracket."""
    if tokens[index].type != "NAME":
        return False
    index += 1
    while index + 1 < len(tokens) and tokens[index].text in (",", "."):
        if tokens[index + 1].type != "NAME":
            return False
        index += 2
    return index < len(tokens) and tokens[index].text in ("=", ":=", ":")


def block_ends(source: Source, tokens: list[Token]) -> dict[int, int]:
    """Start of a `{` -> start of the `}` that belongs to it by indentation.

    That is a `}` at the beginning of the first later line that is not indented more, if that line
    is indented exactly as much.
    """
    ends: dict[int, int] = {}
    waiting: list[tuple[int, Token]] = []  # (indentation of its line, `{`), the innermost last
    for index, token in enumerate(tokens):
        if begins_line(tokens, index):
            indent = indentation(source, token)
            while waiting and waiting[-1][0] >= indent and waiting[-1][1].line < token.line:
                at, opener = waiting.pop()
                if at == indent and token.text == "}":
                    ends[opener.start] = token.start
        if token.text == "{":
            waiting.append((indentation(source, token), token))
        elif token.text == "}" and waiting and waiting[-1][1].line == token.line:
            waiting.pop()
    return ends
