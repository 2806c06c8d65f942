"""Warns of sizes that nothing uses, or that a function's own size hides: usually mistakes."""

from __future__ import annotations

import re

from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.values import LayerDefinition
from wgcc.syntax import ast
from wgcc.syntax.walk import walk


def lint_sizes(context: Context, definition: LayerDefinition) -> None:
    """Once per layer of the user's own files; not for a layer that did not parse."""
    node = definition.node
    if id(node) in context.linted or definition.file.source in context.report.library:
        return
    context.linted.add(id(node))
    pieces = list(walk(node))
    if any(isinstance(piece, ast.Broken) for piece in pieces):
        return
    _report_repeated(context, definition)
    for size in node.sizes:
        if not any(_mentions(piece, size.text) for piece in pieces):
            text = f"size `{size.text}` of `{definition.name}` is never used"
            context.report.warning("WG0902", text, size)
    for member in node.members:
        if isinstance(member, ast.Function):
            _report_hidden(context, definition, member)


def _report_repeated(context: Context, definition: LayerDefinition) -> None:
    seen: set[str] = set()
    for size in definition.node.sizes:
        if size.text in seen:
            text = f"size `{size.text}` of `{definition.name}` is listed twice"
            context.report.error("WG0204", text, size)
        seen.add(size.text)


def _report_hidden(context: Context, definition: LayerDefinition, function: ast.Function) -> None:
    own = {size.text: size for size in definition.node.sizes}
    for size in function.sizes:
        if size.text in own:
            text = (
                f"size `{size.text}` of `{function.name.text}` hides the size `{size.text}` "
                f"of `{definition.name}`"
            )
            found = context.report.warning("WG0903", text, size)
            found.also(own[size.text].span, "hidden here")


def _mentions(piece: ast.Syntax, name: str) -> bool:
    if isinstance(piece, ast.String):
        return re.search(rf"\b{re.escape(name)}\b", piece.value) is not None
    return isinstance(piece, ast.Name) and piece.text == name
