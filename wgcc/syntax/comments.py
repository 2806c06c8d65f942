"""Comments: the `///` lines above an item and those about the whole file, and a warning where `//`
was probably meant to divide."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from wgcc.errors import Diagnostics, Source
from wgcc.syntax.tokens import Token

_DOCUMENTED = frozenset({"LAYER", "MODEL", "FN", "ENTRY"})


@dataclass(slots=True)
class Docs:
    """`by_line` has the text for the item that begins on a line."""

    file: str = ""
    by_line: dict[int, str] = field(default_factory=dict)


def find_docs(tokens: list[Token]) -> Docs:
    """A block directly above an item belongs to it; the first other one, if above all items, is
    about the file."""
    docs = Docs()
    block: list[Token] = []
    seen_item = False
    last_line = 0  # of the last token that is not a comment
    for token in tokens:
        if token.type == "COMMENT":
            if token.text.startswith("///") and token.line != last_line:
                if block and block[-1].line != token.line - 1:
                    _to_file(docs, block, seen_item)
                    block = []
                block.append(token)
        elif token.type != "_NL":
            if block and token.line == block[-1].line + 1 and token.type in _DOCUMENTED:
                docs.by_line[token.line] = _text(block)
            else:
                _to_file(docs, block, seen_item)
            block = []
            seen_item = seen_item or not _edition(token)
            last_line = token.line
    _to_file(docs, block, seen_item)
    return docs


def _edition(token: Token) -> bool:
    return token.type in ("WG", "INT")


def _to_file(docs: Docs, block: list[Token], seen_item: bool) -> None:
    if block and not seen_item and not docs.file:
        docs.file = _text(block)


def _text(block: list[Token]) -> str:
    return "\n".join(token.text[3:].strip() for token in block)


# What could be the right side of a division, and closing brackets after it.
_OPERAND = re.compile(r"//\s*(?P<operand>[A-Za-z_]\w*|\d+)\s*[\])},]*\s*\r?")
_OPERANDS = ("NAME", "INT", "RPAR", "RSQB")


def warn_of_divisions(source: Source, tokens: list[Token], diagnostics: Diagnostics) -> None:
    sizes = _sizes(tokens)
    for before, token in pairwise(tokens):
        if token.type != "COMMENT" or before.type not in _OPERANDS or before.line != token.line:
            continue
        match = _OPERAND.fullmatch(token.text)
        if match and (match["operand"] in sizes or match["operand"].isdigit()):
            span = Token("COMMENT", "//", token.start, token.start + 2, token.line).span(source)
            diagnostics.warning(
                "WG0121", f"`//` begins a comment, so `{match['operand']}` is not read", span
            ).help("to divide, write `/` (of whole numbers it must be exact)", (span, "/"))


def _sizes(tokens: list[Token]) -> set[str]:
    """Names declared by `dim`, and those that come first in brackets: `layer Block[D, H]`."""
    code = [token for token in tokens if token.type not in ("COMMENT", "_NL")]
    return {
        token.text
        for before, token in pairwise(code)
        if token.type == "NAME" and token.text[:1].isupper() and before.text in ("dim", "[", ",")
    }
