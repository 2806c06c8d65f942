"""Iterates over all nodes of a syntax tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

from wgcc.syntax.ast import Syntax


def walk(node: Syntax) -> Iterator[Syntax]:
    """`node` and all nodes inside it, in source order."""
    yield node
    kind: Any = type(node)
    for name in _field_names(kind):
        child = getattr(node, name)
        for piece in child if isinstance(child, tuple) else (child,):
            if isinstance(piece, Syntax):
                yield from walk(piece)


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name != "span")
