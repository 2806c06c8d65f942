"""Warns where `//` was probably meant to divide: what follows would silently be a comment."""

from __future__ import annotations

import re
from itertools import pairwise

from wgcc.errors import Diagnostics, Source
from wgcc.syntax.tokens import Token

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
