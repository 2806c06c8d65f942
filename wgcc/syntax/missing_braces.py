"""Inserts the missing `{` of block headers, in a file whose brackets do not match."""

from __future__ import annotations

from wgcc.errors import Diagnostics, Source, Span
from wgcc.syntax.indentation import indentation
from wgcc.syntax.newlines import CONTINUES_AFTER
from wgcc.syntax.tokens import CLOSERS, OPENERS, Token, inserted, words

BLOCK_HEADERS = words("fn entry for if else layer model test optimizer group")


def add_missing_braces(
    source: Source, tokens: list[Token], diagnostics: Diagnostics
) -> list[Token]:
    """Insert a `{` where a header is followed by a line that is indented more."""
    kept: list[Token] = []
    line: list[Token] = []
    for token in tokens:
        if token.type == "_NL":
            kept.append(token)
            continue
        if line and token.line > line[-1].line:
            if _lacks_brace(line) and _is_inside(source, line[0], token):
                _insert_brace(source, kept, line[-1], diagnostics)
            line = []
        line.append(token)
        kept.append(token)
    return kept


def _lacks_brace(line: list[Token]) -> bool:
    head = line[-1] if line[-1].type == "ELSE" else line[0]
    if head.text not in BLOCK_HEADERS or head.type in ("NAME", "STRING"):
        return False
    depth = 0
    for token in line:
        depth += (token.text in OPENERS) - (token.text in CLOSERS)
        if token.text == "{" or (token.text == "=" and depth == 0):
            return False
    return line[-1].text == "else" or line[-1].text not in CONTINUES_AFTER


def _is_inside(source: Source, head: Token, following: Token) -> bool:
    deeper = indentation(source, following) > indentation(source, head)
    return deeper and following.text not in OPENERS and following.text not in CLOSERS


def _insert_brace(source: Source, kept: list[Token], last: Token, diagnostics: Diagnostics) -> None:
    diagnostics.error(
        "WG0120",
        f"expected `{{` after `{last.text}`, found the end of the line",
        Span(source, last.end, last.end + 1),
    ).help("a block begins with `{` and ends with `}`", (Span(source, last.end, last.end), " {"))
    at = len(kept)
    while kept[at - 1].type == "_NL":
        at -= 1
    kept.insert(at, inserted("LBRACE", "{", last))
