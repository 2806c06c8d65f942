"""The state of building a syntax tree from raw nodes: source, diagnostics, doc comments, depth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wgcc.errors import Diagnostics, Source, Span
from wgcc.syntax import ast
from wgcc.syntax.tokens import Node, Token

# Later phases are recursive, with several calls for each level of the tree.
DEEPEST = 128


@dataclass(slots=True)
class Reading:
    source: Source
    diagnostics: Diagnostics
    docs: Mapping[int, str] = field(default_factory=dict)
    doubtful: list[int] = field(default_factory=list)
    depth: int = 0
    # Types with a `?` that are not yet known to be those of inputs.
    any_floats: list[ast.TypeExpr] = field(default_factory=list)

    def span(self, piece: Node | Token) -> Span:
        return Span(self.source, max(piece.start, 0), max(piece.end, 0))

    def doc(self, piece: Node) -> str:
        """The `///` lines directly above."""
        return self.docs.get(self.source.line_column(max(piece.start, 0))[0], "")

    def identifier(self, token: Token) -> ast.Identifier:
        return ast.Identifier(self.span(token), token.text)

    def identifiers(self, tokens: list[Token]) -> tuple[ast.Identifier, ...]:
        return tuple(self.identifier(token) for token in tokens)

    def broken(self, node: Node) -> ast.Broken:
        return ast.Broken(self.span(node), tuple(token.text for token in node.children))

    def is_doubtful(self, node: Node) -> bool:
        """Was something in it repaired in a way that may have changed its meaning?"""
        return any(node.start <= place <= node.end for place in self.doubtful)

    def doubted(self, node: Node) -> ast.Broken:
        names: list[str] = []
        todo: list[Any] = [node]
        while todo:
            piece = todo.pop()
            if isinstance(piece, Node):
                todo += piece.children
            elif piece is not None and piece.type == "NAME":
                names.append(piece.text)
        return ast.Broken(self.span(node), tuple(dict.fromkeys(names)))

    def refuse_any_floats(self) -> None:
        for written in self.any_floats:
            assert written.any_float is not None
            text = "only an input of an entry says whether it may hold NaN and infinity"
            mark = written.any_float.span
            self.diagnostics.error("WG0611", text, mark).help("leave out the `?`", (mark, ""))

    def too_deep(self, node: Node) -> ast.Broken:
        self.diagnostics.error(
            "WG0106", f"this is nested more than {DEEPEST} levels deep", self.span(node)
        ).help("give the inner parts names: `h = ...`")
        return ast.Broken(self.span(node))
