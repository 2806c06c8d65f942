"""Walks over all nodes of a syntax tree, and writes it as text: for readers (`wgcc show --stage
ast`), and as JSON, to be kept and read again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

from wgcc.errors import Source, Span
from wgcc.syntax import ast
from wgcc.syntax.ast import Syntax


def walk(node: Syntax) -> Iterator[Syntax]:
    """`node` and all nodes inside it, in source order."""
    yield node
    kind: Any = type(node)
    for name in field_names(kind):
        child = getattr(node, name)
        for piece in child if isinstance(child, tuple) else (child,):
            if isinstance(piece, Syntax):
                yield from walk(piece)


@cache
def field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name != "span")


def tree_text(node: ast.Syntax) -> str:
    """One node per line, its parts below it; words and numbers follow the node's kind."""
    return "\n".join(_lines(node, "", 0)) + "\n"


def _lines(node: ast.Syntax, role: str, depth: int) -> Iterator[str]:
    words = [type(node).__name__]
    below: list[tuple[str, ast.Syntax]] = []
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, ast.Identifier):
            words.append(f"{field.name}={value.text}")
        elif isinstance(value, ast.Syntax):
            below.append((field.name, value))
        elif isinstance(value, tuple):
            inline, nested = _parts(field.name, value)
            words += inline
            below += nested
        elif field.name not in ("span", "op_span") and _says_something(node, value):
            words.append(f"{field.name}={value!r}")
    label = f"{role}: " if role else ""
    yield f"{'  ' * depth}{label}{' '.join(words)}  // {node.span.place}"
    for name, part in below:
        yield from _lines(part, name, depth + 1)


def _parts(name: str, values: tuple[object, ...]) -> tuple[list[str], list[tuple[str, ast.Syntax]]]:
    """A list of names is on the line itself, a list of nodes below it."""
    identifiers = [value.text for value in values if isinstance(value, ast.Identifier)]
    inline = [f"{name}={', '.join(identifiers)}"] if identifiers else []
    nested = [
        (name, value)
        for value in values
        if isinstance(value, ast.Syntax) and not isinstance(value, ast.Identifier)
    ]
    return inline, nested


def _says_something(node: ast.Syntax, value: object) -> bool:
    return isinstance(node, ast.Bool) or (value is not None and value is not False and value != "")


_TUPLE, _SPAN = "", "Span"
_CLASSES = {name: kind for name, kind in vars(ast).items() if isinstance(kind, type)}


def encode(part: Any) -> Any:
    """A node is a list of its class, its place and its fields."""
    if isinstance(part, tuple):
        return [_TUPLE, *map(encode, part)]
    if isinstance(part, Span):
        return [_SPAN, part.start, part.end]
    if not isinstance(part, ast.Syntax):
        assert part is None or isinstance(part, str | int | float), f"{type(part)} in a tree"
        return part
    kind: Any = type(part)
    values = (getattr(part, name) for name in field_names(kind))
    return [kind.__name__, part.span.start, part.span.end, *map(encode, values)]


def decode(part: Any, source: Source) -> Any:
    if type(part) is not list:
        return part
    kind = part[0]
    if kind == _TUPLE:
        return tuple([decode(item, source) for item in part[1:]])
    span = Span(source, part[1], part[2])
    if kind == _SPAN:
        return span
    return _CLASSES[kind](span, *[decode(item, source) for item in part[3:]])
