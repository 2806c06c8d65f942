"""Parses a source file into a syntax tree, and reports all its syntax errors."""

from __future__ import annotations

from wgcc.errors import Diagnostics, Source, Span
from wgcc.syntax import ast
from wgcc.syntax.brackets import balance
from wgcc.syntax.comment_warnings import warn_of_divisions
from wgcc.syntax.doc_comments import find_docs
from wgcc.syntax.error_lines import one_error_per_line
from wgcc.syntax.grammar import grammar
from wgcc.syntax.indented_blocks import brace_indented
from wgcc.syntax.items import item
from wgcc.syntax.keyword_mistakes import correct_keywords, names_among_keywords
from wgcc.syntax.nesting_limit import cut_depth, limit_depth
from wgcc.syntax.newlines import statement_ends
from wgcc.syntax.reading import Reading
from wgcc.syntax.recover import parse_tokens
from wgcc.syntax.tokens import Token
from wgcc.syntax.unknown_characters import replace_unknown

# Parsing and checking this many takes seconds; real programs have a hundred times fewer.
MOST_TOKENS = 150_000


def parse(source: Source, diagnostics: Diagnostics) -> ast.File:
    """Always a tree; what did not parse is `Broken` in it, and its error is reported."""
    raw = grammar().lex(source.text, MOST_TOKENS + 1)
    if len(raw) > MOST_TOKENS:
        return _too_long(source, raw[-1], diagnostics)
    warn_of_divisions(source, raw, diagnostics)
    tree, doubtful = parse_tokens(source, _prepared(source, raw, diagnostics), diagnostics)
    docs = find_docs(raw)
    reading = Reading(source, diagnostics, docs.by_line, doubtful)
    items = tuple(item(reading, node) for node in tree.children if node is not None)
    reading.refuse_any_floats()
    one_error_per_line(diagnostics, source)
    return ast.File(Span(source, 0, len(source.text)), items, docs.file)


def _too_long(source: Source, beyond: Token, diagnostics: Diagnostics) -> ast.File:
    text = f"a file has at most {MOST_TOKENS:,} words, numbers, signs and comments"
    diagnostics.error("WG0108", text, beyond.span(source), "it has more from here on")
    everything = Span(source, 0, len(source.text))
    return ast.File(everything, (ast.Broken(everything),), "")


def _prepared(source: Source, raw: list[Token], diagnostics: Diagnostics) -> list[Token]:
    """Tokens for the grammar; mistakes that it could not explain well are fixed before."""
    tokens = replace_unknown(source, raw, diagnostics)
    tokens = cut_depth(source, tokens, diagnostics)
    tokens = names_among_keywords(tokens)
    tokens = correct_keywords(source, tokens, diagnostics)
    tokens = brace_indented(source, tokens, diagnostics)
    tokens = balance(source, tokens, diagnostics)
    tokens = limit_depth(source, tokens, diagnostics)
    return statement_ends(tokens)
