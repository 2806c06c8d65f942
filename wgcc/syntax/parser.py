"""A source file as syntax tree, with every syntax error reported on the way."""

from __future__ import annotations

from wgcc.errors import Diagnostics, Source, Span
from wgcc.syntax import ast
from wgcc.syntax.docs import find_docs
from wgcc.syntax.grammar import END, grammar
from wgcc.syntax.items import item
from wgcc.syntax.newlines import statement_ends
from wgcc.syntax.reading import Reading
from wgcc.syntax.tokens import Node, Token


def parse(source: Source, diagnostics: Diagnostics) -> ast.File:
    """Always a tree; where the text could not be read it has `Broken`, and an error is reported."""
    raw = grammar().lex(source.text)
    tokens = statement_ends([t for t in raw if t.type not in ("WS", "COMMENT")])
    tree = _parse_tokens(source, tokens, diagnostics)
    docs = find_docs(raw)
    reading = Reading(source, diagnostics, docs.by_line)
    items = tuple(item(reading, node) for node in tree.children if node is not None)
    return ast.File(Span(source, 0, len(source.text)), items, docs.file)


def _parse_tokens(source: Source, tokens: list[Token], diagnostics: Diagnostics) -> Node:
    machine = grammar().machine()
    for token in tokens:
        if not machine.feed(token):
            if token.text in ("state",) or token.type not in ("NAME",):
                name = token.retagged("NAME")
                if machine.feed(name):
                    continue
            diagnostics.error("WG0120", f"unexpected `{token.text}`", token.span(source))
            return Node("start")
    return machine.finish(Token(END, "", 0, 0, 0)) or Node("start")
