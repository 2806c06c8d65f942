"""Inferred shapes to show inside the text: after each `|>` and beside each assigned name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wgcc.elaborate.tracing.values import ListValue, ParamRef, StateRef, Tensor, TupleValue
from wgcc.language_service.analysis import Analysis, type_of
from wgcc.syntax import ast
from wgcc.syntax.tree_text import walk


@dataclass(frozen=True, slots=True)
class InlayHint:
    offset: int
    text: str


def inlay_hints(analysis: Analysis, start: int, end: int) -> list[InlayHint]:
    """Those between two places of the text, in its order."""
    hints = [InlayHint(node.span.end, f": {text}") for node, text in bound_types(analysis)]
    hints += _pipeline_hints(analysis)
    return sorted((hint for hint in hints if start <= hint.offset <= end), key=lambda h: h.offset)


def bound_types(analysis: Analysis) -> Iterator[tuple[ast.Name, str]]:
    """NameScope that are assigned, with the types that they get there."""
    for node in walk(analysis.tree):
        if not isinstance(node, ast.Bind) or node.type is not None:
            continue
        if len(node.targets) == len(node.values):
            for target, value in zip(node.targets, node.values, strict=True):
                seen = analysis.at(value)
                if seen is not None and isinstance(target, ast.Name) and _is_shown(seen.value):
                    yield target, seen.types[0]
        elif len(node.values) == 1:
            yield from _unpack(analysis, node)


def _unpack(analysis: Analysis, node: ast.Bind) -> Iterator[tuple[ast.Name, str]]:
    """`a, b = split(x, 2)`: the parts of one type `(f32[2], f32[2])`."""
    seen = analysis.at(node.values[0])
    items = seen.value.items if seen and isinstance(seen.value, (TupleValue, ListValue)) else ()
    for target, item in zip(node.targets, items, strict=False):
        if isinstance(target, ast.Name) and _is_shown(item):
            yield target, type_of(item)


def _pipeline_hints(analysis: Analysis) -> Iterator[InlayHint]:
    for node in walk(analysis.tree):
        if isinstance(node, ast.Pipe):
            seen = analysis.at(node)
            if seen is not None and _is_shown(seen.value):
                yield InlayHint(node.span.end, f" {seen.types[0]}")


def _is_shown(value: object) -> bool:
    if isinstance(value, TupleValue):
        return all(map(_is_shown, value.items))
    return isinstance(value, (Tensor, ParamRef, StateRef))
