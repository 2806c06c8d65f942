"""Trees that nobody wrote: built from templates with holes or from Python values, with some nodes
replaced; and trees compared by what they say.

`filled("softmax({0}, axis = {1})", x, 2)` parses the template once, and puts trees into its holes.
A named argument whose hole gets None is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import copysign
from typing import Any, TypeAlias

from wgcc.errors import Diagnostics, Source, Span
from wgcc.syntax import ast
from wgcc.syntax.ast import Syntax
from wgcc.syntax.parser import parse
from wgcc.syntax.tree_text import field_names

NOWHERE = Span(Source("", ""), 0, 0)
MOST_HOLES = 32
_HOLES = [f"hole_{place}_" for place in range(MOST_HOLES)]
# What a hole is filled with: a tree, a value of Python, or None for no argument.
Part: TypeAlias = Any


@dataclass(slots=True, eq=False)
class Hole(ast.Syntax):
    """A place of a template that is filled later."""

    place: int


@cache
def template(text: str) -> ast.Expr:
    """An expression with holes `{0}`, `{1}` …, as a tree."""
    item = parse_own(f"const x = {text.format(*_HOLES)}").items[0]
    assert isinstance(item, ast.Const)
    holes = {name: Hole(NOWHERE, place) for place, name in enumerate(_HOLES)}

    def change(node: ast.Syntax) -> ast.Syntax | None:
        return holes.get(node.text) if isinstance(node, ast.Name) else None

    tree: Any = rewrite(item.value, change)
    return tree  # type: ignore[no-any-return]


def parse_own(text: str) -> ast.File:
    """The tree of a text of our own, which has no errors."""
    diagnostics = Diagnostics()
    file = parse(Source("", text), diagnostics)
    assert not diagnostics.errors, text
    return file


def fill_form(text: str, *parts: Part) -> ast.Expr:
    trees = [tree_of(part) if part is not None else None for part in parts]

    def change(node: ast.Syntax) -> ast.Syntax | None:
        if isinstance(node, Hole):
            filling = trees[node.place]
            assert filling is not None, f"hole {node.place} of {text} is no named argument"
            return filling
        if isinstance(node, ast.Call) and any(map(is_left_out, node.arguments)):
            kept = tuple(item for item in node.arguments if not is_left_out(item))
            return rewrite(ast.Call(node.span, node.function, kept), change)
        return None

    def is_left_out(argument: ast.Argument) -> bool:
        value: Any = argument.value
        return isinstance(value, Hole) and trees[value.place] is None

    tree: Any = rewrite(template(text), change)
    return tree  # type: ignore[no-any-return]


def tree_of(part: Part) -> ast.Syntax:
    """The tree of a number, a text, a list or a tuple of such; a tree as it is."""
    if isinstance(part, ast.Syntax):
        return part
    if isinstance(part, bool):
        return ast.Bool(NOWHERE, part)
    if isinstance(part, int | float):
        kind = ast.Int if isinstance(part, int) else ast.Float
        size: Any = kind(NOWHERE, abs(part))  # type: ignore[arg-type]
        return ast.Unary(NOWHERE, "-", size) if copysign(1, part) < 0 else size
    if isinstance(part, str):
        return ast.String(NOWHERE, part)
    items: Any = tuple(map(tree_of, part))
    return (
        ast.TupleExpr(NOWHERE, items) if isinstance(part, tuple) else ast.ListExpr(NOWHERE, items)
    )


def identifier(text: str) -> ast.Identifier:
    return ast.Identifier(NOWHERE, text)


def name(text: str) -> ast.Name:
    return ast.Name(NOWHERE, text)


def call(function: str | ast.Expr, *parts: Part, **named: Part) -> ast.Call:
    """Named arguments that are None are left out."""
    head = name(function) if isinstance(function, str) else function
    positional: list[Any] = [ast.Argument(NOWHERE, None, tree_of(part)) for part in parts]  # type: ignore[arg-type]
    return ast.Call(NOWHERE, head, (*positional, *named_arguments(named)))


def named_arguments(named: Mapping[str, Part]) -> tuple[ast.Argument, ...]:
    trees: Any = {key: tree_of(part) for key, part in named.items() if part is not None}
    return tuple(ast.Argument(NOWHERE, identifier(key), tree) for key, tree in trees.items())


def type_expr(dtype: str, sizes: Sequence[Part], any_float: bool = False) -> ast.TypeExpr:
    dims: Any = tuple(map(tree_of, sizes))
    return ast.TypeExpr(NOWHERE, identifier(dtype), dims, identifier("?") if any_float else None)


def constructor(
    layer: str, sizes: Sequence[Part] = (), arguments: Mapping[str, Part] | None = None
) -> ast.Constructor:
    """`Linear[8, 4](bias = false)`; brackets and parentheses only where something is in them."""
    dims: Any = tuple(map(tree_of, sizes))
    options = named_arguments(arguments or {})
    return ast.Constructor(NOWHERE, (identifier(layer),), dims or None, options or None)


def bind(targets: Sequence[ast.Expr], value: ast.Expr) -> ast.Bind:
    return ast.Bind(NOWHERE, tuple(targets), None, (value,))


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
