"""Removes what is nested too deeply in brackets, because later phases are recursive."""

from __future__ import annotations

from wgcc.errors import Diagnostics, Source
from wgcc.syntax.tokens import CLOSERS, OPENERS, Token

# Far more than programs need.
DEEPEST = 64
# Where brackets do not match, each is compared with all open ones.
MOST_OPEN = 100


def limit_depth(source: Source, tokens: list[Token], diagnostics: Diagnostics) -> list[Token]:
    """Replace a bracket that is nested too deeply by a name; brackets match already."""
    kept: list[Token] = []
    depth = 0
    for token in tokens:
        depth += token.text in OPENERS
        if depth <= DEEPEST:
            kept.append(token)
        elif depth == DEEPEST + 1 and token.text in OPENERS:
            _report(source, token, diagnostics)
            kept.append(token.retagged("NAME", "_"))
        depth -= token.text in CLOSERS
    return kept


def cut_depth(source: Source, tokens: list[Token], diagnostics: Diagnostics) -> list[Token]:
    """Before brackets are made to match: drop what follows very many open ones."""
    kept: list[Token] = []
    depth = 0
    for token in tokens:
        depth += token.text in OPENERS
        if depth <= MOST_OPEN:
            kept.append(token)
        elif depth == MOST_OPEN + 1 and token.text in OPENERS:
            _report(source, token, diagnostics)
        depth -= depth > 0 and token.text in CLOSERS
    return kept


def _report(source: Source, token: Token, diagnostics: Diagnostics) -> None:
    text = f"brackets are nested more than {DEEPEST} levels deep"
    found = diagnostics.error("WG0106", text, token.span(source))
    found.help("give the inner parts names: `h = ...`")
