"""Whole numbers of a program that follow its sizes, as expressions of these.

A model is written for several sizes; what differs between the trees must be explained by them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

from wgcc.from_onnx.match import match_list
from wgcc.syntax import ast
from wgcc.syntax.templates import filled, form, name, rewrite

Sizes: TypeAlias = Mapping[str, int]
NUMBER, LIST = name("number"), name("list")


@dataclass(frozen=True, slots=True)
class Expression:
    """`factor` times the product of `names`, plus `offset`."""

    factor: int
    names: tuple[str, ...]
    offset: int = 0

    def at(self, sizes: Sizes) -> int:
        return self.factor * math.prod(sizes[name] for name in self.names) + self.offset

    @property
    def tree(self) -> ast.Expr:
        product: Any = None if self.factor == 1 else ast.Int(NUMBER.span, self.factor)
        for item in map(name, self.names):
            product = item if product is None else filled("{0} * {1}", product, item)
        if not self.offset:
            return product  # type: ignore[no-any-return]
        sign = "+" if self.offset > 0 else "-"
        return filled(f"{{0}} {sign} {{1}}", product, abs(self.offset))


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A program without its whole numbers and written lists, and these."""

    form: Hashable
    numbers: list[int]
    lists: list[ast.Call]


def skeleton(file: ast.File) -> Skeleton:
    numbers: list[int] = []
    lists: list[ast.Call] = []

    def change(node: ast.Syntax) -> ast.Syntax | None:
        if isinstance(node, ast.Call) and match_list(node) is not None:
            lists.append(node)
            return LIST
        if isinstance(node, ast.Int):
            numbers.append(node.value)
            return NUMBER
        return None

    return Skeleton(form(rewrite(file, change)), numbers, lists)


def fill(
    file: ast.File, numbers: Sequence[Expression | int], lists: Sequence[ast.Expr],
    remarks: dict[ast.Syntax, str],
) -> ast.File:  # fmt: skip
    """The program with these in the places of its own; `remarks` follow their statements."""
    meanings, others = iter(numbers), iter(lists)
    seen: set[ast.Syntax] = set()

    def change(node: ast.Syntax) -> ast.Syntax | None:
        if isinstance(node, ast.Call) and match_list(node) is not None:
            return next(others)
        if isinstance(node, ast.Int):
            meaning = next(meanings)
            return node if isinstance(meaning, int) else meaning.tree
        if node in remarks and node not in seen:
            seen.add(node)
            moved = rewrite(node, change)
            remarks[moved] = remarks[node]
            return moved
        return None

    found = rewrite(file, change)
    assert isinstance(found, ast.File)
    return found


def explain(numbers: Sequence[int], sizes: Sequence[Sizes]) -> Expression | int | None:
    """What gives these numbers at these sizes; a number if all are equal, None if nothing does."""
    if len(set(numbers)) == 1:
        return numbers[0]
    names = tuple(sizes[0])
    products = [part for count in range(1, len(names) + 1) for part in combinations(names, count)]
    for part in products:
        for expression in _candidates(part, numbers[0], numbers, sizes):
            if all(expression.at(at) == n for n, at in zip(numbers, sizes, strict=True)):
                return expression
    return None


def _candidates(
    names: tuple[str, ...], first: int, numbers: Sequence[int], sizes: Sequence[Sizes]
) -> list[Expression]:
    """A multiple without an offset comes first: it needs no other explanation."""
    values = [math.prod(at[name] for name in names) for at in sizes]
    found = [Expression(first // values[0], names)] if first % values[0] == 0 and first else []
    for value, number in zip(values[1:], numbers[1:], strict=True):
        step = value - values[0]
        if step and (number - first) % step == 0 and (factor := (number - first) // step) > 0:
            found.append(Expression(factor, names, first - factor * values[0]))
            break
    return found
