"""Consts that only settings of optimizers use, as state of the model: then they can change without
compiling again.

A sweep of learning rates is one compilation: `const rate = 0.1` becomes `state rate: f32 = 0.1`,
which a setting `lr = rate` reads in each step. Where another part of the program uses the number,
it stays known at compile time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wgcc.errors import Diagnostics, Source, Span
from wgcc.syntax import ast
from wgcc.syntax.parser import parse
from wgcc.syntax.tree_text import walk


def live_names(source: Source, names: Iterable[str]) -> frozenset[str]:
    """Those of `names` that can be live: consts of the file itself, used by settings alone."""
    tree = parse(source, Diagnostics())
    consts = {item.name.text for item in tree.items if isinstance(item, ast.Const)}
    wanted = consts & set(names)
    if not wanted or len(_models(tree)) != 1:
        return frozenset()
    settings = {id(node) for part in walk(tree) for node in _in_settings(part)}
    uses = [node for node in walk(tree) if isinstance(node, ast.Name) and node.text in wanted]
    elsewhere = {node.text for node in uses if id(node) not in settings}
    return frozenset(wanted & {node.text for node in uses} - elsewhere)


def with_live_settings(source: Source, values: Mapping[str, float]) -> Source:
    """The program with these consts as state of its model. No line gets another number."""
    tree = parse(source, Diagnostics())
    (model,) = _models(tree)
    consts = [item for item in tree.items if isinstance(item, ast.Const)]
    text = source.text
    # From the end, so that earlier places stay where they are.
    start = text.index("{", model.name.span.end) + 1
    states = "".join(f" state {name}: f32 = {value!r};" for name, value in values.items())
    edits = [(start, start, states)]
    for item in consts:
        if item.name.text in values:
            edits.append((item.span.start, item.span.end, _blank(item.span)))
    for first, end, new in sorted(edits, reverse=True):
        text = text[:first] + new + text[end:]
    return Source(source.name, text, source.path)


def _models(tree: ast.File) -> list[ast.Layer]:
    return [item for item in tree.items if isinstance(item, ast.Layer) and item.is_model]


def _in_settings(node: ast.Syntax) -> Iterable[ast.Syntax]:
    """The nodes of an optimizer's settings: where it is declared, or where it is used."""
    if isinstance(node, ast.Optimizer):
        return walk(node)
    return walk(node.optimizer) if isinstance(node, ast.Minimize) else ()


def _blank(span: Span) -> str:
    return "".join(letter if letter == "\n" else " " for letter in span.text)
