"""Trees with some nodes replaced, and trees compared by what they say."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from wgcc.syntax.ast import Syntax
from wgcc.syntax.tree_text import field_names


def rewrite(node: Syntax, change: Callable[[Syntax], Syntax | None]) -> Syntax:
    """The tree with some nodes replaced: where `change` returns one, it is taken as it is."""
    replaced = change(node)
    if replaced is not None:
        return replaced
    kind: Any = type(node)
    parts = {}
    for name in field_names(kind):
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
    names = [name for name in field_names(kind) if name != "op_span"]
    return (kind, *(form(getattr(node, name)) for name in names))
