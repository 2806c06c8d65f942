"""Blocks written with `:` and indentation: reported once each, and parsed as if they had braces."""

from __future__ import annotations

from wgcc.errors import Diagnostics, Source
from wgcc.syntax.indentation import begins_line, indentation
from wgcc.syntax.missing_braces import BLOCK_HEADERS
from wgcc.syntax.tokens import Token, inserted


def brace_indented(source: Source, tokens: list[Token], diagnostics: Diagnostics) -> list[Token]:
    kept: list[Token] = []
    open_blocks: list[int] = []  # the indentation of the headers of open blocks
    head: Token | None = None
    for index, token in enumerate(tokens):
        if begins_line(tokens, index):
            head = token
            while open_blocks and indentation(source, token) <= open_blocks[-1]:
                open_blocks.pop()
                _close(kept)
        if head is not None and _opens_block(source, tokens, index, head):
            span = token.span(source)
            diagnostics.error("WG0117", "blocks use braces, not `:` and indentation", span).help(
                "write `{` here and `}` after the last statement", (span, " {")
            )
            kept.append(token.retagged("LBRACE", "{"))
            open_blocks.append(indentation(source, head))
        else:
            kept.append(token)
    for _ in open_blocks:
        _close(kept)
    return kept


def _opens_block(source: Source, tokens: list[Token], index: int, head: Token) -> bool:
    if tokens[index].text != ":" or head.text not in BLOCK_HEADERS or head.type == "NAME":
        return False
    after = [token for token in tokens[index + 1 : index + 40] if token.type != "_NL"]
    if tokens[index + 1 : index + 2] == after[:1] or not after:
        return False  # something follows the `:`, so it is not the end of a header
    return indentation(source, after[0]) > indentation(source, head)


def _close(kept: list[Token]) -> None:
    at = len(kept)
    while kept[at - 1].type == "_NL":
        at -= 1
    kept.insert(at, inserted("RBRACE", "}", kept[at - 1]))
