"""Describes what is at a place: type, declaration, documentation, PyTorch's counterpart."""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.errors import Span
from wgcc.language_service.analysis import Analysis
from wgcc.language_service.inlay_hints import bound_types
from wgcc.language_service.names import LOCAL, Symbol
from wgcc.language_service.reference import Entry, optimizer_settings, reference
from wgcc.language_service.signatures import declaration_of
from wgcc.syntax.grammar import grammar
from wgcc.syntax.tables import Token


@dataclass(frozen=True, slots=True)
class Hover:
    span: Span
    markdown: str


def hover(analysis: Analysis, offset: int) -> Hover | None:
    """None where there is nothing to say: white space, comments, punctuation."""
    token = word_at(analysis.source.text, offset)
    if token is None:
        return None
    parts = [*_declaration(analysis, offset), *_types(analysis, token)]
    entry = reference().get(token.text)
    if entry is not None and analysis.names.used_at(offset) is None:
        parts += describe_entry(entry)
    elif not parts and token.text in optimizer_settings():
        parts.append(optimizer_settings()[token.text])
    if not parts:
        return None
    return Hover(token.span(analysis.source), "\n\n".join(parts))


def word_at(text: str, offset: int) -> Token | None:
    """The name, keyword or number at or just before a place."""
    for token in grammar().lex(text):
        is_word = token.text[0].isalnum() or token.text[0] == "_"
        if is_word and token.start <= offset <= token.end:
            return token
    return None


def describe_entry(entry: Entry) -> list[str]:
    parts = [_code(entry.signature), entry.meaning]
    if entry.example:
        parts.append(f"Example: `{entry.example}`")
    return [*parts, *([entry.pytorch] if entry.pytorch else [])]


def describe_symbol(symbol: Symbol) -> list[str]:
    doc = getattr(symbol.node, "doc", "")
    return [_code(declaration_of(symbol)), *([doc] if doc else [])]


def _declaration(analysis: Analysis, offset: int) -> list[str]:
    use = analysis.names.used_at(offset)
    if use is None or use[0].kind == LOCAL:
        return []
    return describe_symbol(use[0])


def _types(analysis: Analysis, token: Token) -> list[str]:
    """The types of a word that is an expression, or a name that is assigned: `x: f32[B, D]`."""
    seen = analysis.observations.get((token.start, token.end))
    types = seen.types if seen is not None else []
    if not types:
        types = [text for node, text in bound_types(analysis) if node.span.start == token.start]
    lines = [f"{token.text}: {text}" for text in types if not text.startswith("the ")]
    return [_code("\n".join(lines))] if lines else []


def _code(text: str) -> str:
    return f"```wg\n{text}\n```"
