"""Leaves out what brackets nest too deeply: everything later walks the tree by recursion."""

from __future__ import annotations

from wgcc.errors import Diagnostics, Source
from wgcc.syntax.tokens import CLOSERS, OPENERS, Token

# Far more than any program nests.
DEEPEST = 64


def limit_depth(source: Source, tokens: list[Token], diagnostics: Diagnostics) -> list[Token]:
    """A name stands in for a bracket that is too deep; brackets match already."""
    kept: list[Token] = []
    depth = 0
    for token in tokens:
        depth += token.text in OPENERS
        if depth <= DEEPEST:
            kept.append(token)
        elif depth == DEEPEST + 1 and token.text in OPENERS:
            diagnostics.error(
                "WG0106",
                f"brackets are nested more than {DEEPEST} levels deep",
                token.span(source),
            ).help("give the inner parts names: `h = ...`")
            kept.append(token.retagged("NAME", "_"))
        depth -= token.text in CLOSERS
    return kept
