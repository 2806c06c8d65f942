"""All nodes of a syntax tree, one after the other; and trees with some of them replaced."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, replace
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


def rewrite(node: Syntax, change: Callable[[Syntax], Syntax | None]) -> Syntax:
    """The tree with some nodes replaced: where `change` returns one, it is taken as it is."""
    replaced = change(node)
    if replaced is not None:
        return replaced
    kind: Any = type(node)
    parts = {}
    for name in _field_names(kind):
        child = getattr(node, name)
        if isinstance(child, Syntax):
            new: Any = rewrite(child, change)
            if new is not child:
                parts[name] = new
        elif isinstance(child, tuple):
            items = tuple(
                rewrite(item, change) if isinstance(item, Syntax) else item for item in child
            )
            if any(a is not b for a, b in zip(items, child, strict=True)):
                parts[name] = items
    return replace(node, **parts) if parts else node


def form(node: Any) -> Hashable:
    """Equal for trees that say the same, wherever they were written."""
    if isinstance(node, tuple):
        return tuple(map(form, node))
    if not isinstance(node, Syntax):
        return node  # type: ignore[no-any-return]
    kind: Any = type(node)
    names = [name for name in _field_names(kind) if name != "op_span"]
    return (kind, *(form(getattr(node, name)) for name in names))
