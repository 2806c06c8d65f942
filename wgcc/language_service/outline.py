"""The outline of a file, what can be folded in it, and what each name is, for its colour."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from wgcc.errors import Span
from wgcc.language_service.analysis import Analysis
from wgcc.language_service.names import (
    CONST,
    DIM,
    DTYPE,
    ENTRY,
    FUNCTION,
    IMPORT,
    LAYER,
    LOCAL,
    MODEL,
    OPTIMIZER,
    OPTION,
    PARAM,
    SIZE,
    STATE,
    SUBMODULE,
    NameScope,
)
from wgcc.language_service.reference import reference
from wgcc.language_service.signatures import declaration_of
from wgcc.syntax import ast
from wgcc.syntax.grammar import grammar
from wgcc.syntax.tree_text import walk

LONGEST_DETAIL = 100
BUILT_IN, STANDARD_LAYER = "built-in", "standard layer"
# Kinds of symbols as the protocol of editors has them.
TOKEN_TYPES = {
    DIM: "typeParameter", SIZE: "typeParameter", CONST: "enumMember", DTYPE: "type",
    LAYER: "class", MODEL: "class", FUNCTION: "function", ENTRY: "method", IMPORT: "namespace",
    OPTION: "parameter", PARAM: "property", STATE: "property", SUBMODULE: "property",
    OPTIMIZER: "property", LOCAL: "variable", BUILT_IN: "function", STANDARD_LAYER: "class",
}  # fmt: skip


@dataclass(slots=True)
class OutlineItem:
    name: str
    kind: str
    detail: str
    span: Span
    name_span: Span
    children: list[OutlineItem] = field(default_factory=list)


def outline(analysis: Analysis) -> list[OutlineItem]:
    items = list(_outline(analysis.names))
    for node in analysis.tree.items:
        if isinstance(node, ast.Test):
            items.append(OutlineItem(node.name.value, "test", "", node.span, node.name.span))
    return sorted(items, key=lambda item: item.span.start)


def _outline(names: NameScope) -> Iterator[OutlineItem]:
    for symbol in names.symbols.values():
        if symbol.kind in (LOCAL, IMPORT):
            continue
        is_layer = symbol.members is not None and symbol.kind in (LAYER, MODEL)
        children = list(_outline(symbol.members)) if is_layer and symbol.members else []
        detail = declaration_of(symbol)[:LONGEST_DETAIL]
        yield OutlineItem(
            symbol.name, symbol.kind, detail, symbol.node.span, symbol.place, children
        )


def folding_ranges(analysis: Analysis) -> list[tuple[int, int, str]]:
    """First and last lines, from 0, with `region` or `comment`."""
    source = analysis.source
    ranges = set()
    for node in walk(analysis.tree):
        if isinstance(node, (ast.Layer, ast.Function, ast.Test, ast.For, ast.If, ast.Optimizer)):
            first, last = (source.line_column(at)[0] for at in (node.span.start, node.span.end))
            if last > first:
                ranges.add((first - 1, last - 1, "region"))
    comments = (token for token in grammar().lex(source.text) if token.type == "COMMENT")
    lines = [t.line for t in comments if source.line_text(t.line).lstrip().startswith("//")]
    for _, run in groupby(enumerate(lines), key=lambda pair: pair[1] - pair[0]):
        block = [line for _, line in run]
        if len(block) > 1:
            ranges.add((block[0] - 1, block[-1] - 1, "comment"))
    return sorted(ranges)


def semantic_tokens(analysis: Analysis) -> list[tuple[int, int, str]]:
    """(start, length, kind) of each name, in order."""
    kinds = {
        use.start: (use.end - use.start, symbol.kind)
        for symbol in analysis.names.everything()
        for use in symbol.uses
    }
    library = reference()
    for node in walk(analysis.tree):
        if isinstance(node, (ast.Name, ast.Identifier)) and node.span.start not in kinds:
            entry = library.get(node.text)
            if entry is not None:
                kind = STANDARD_LAYER if entry.is_layer else BUILT_IN
                kinds[node.span.start] = (len(node.text), kind)
    return [(start, length, kind) for start, (length, kind) in sorted(kinds.items())]
