"""Whole numbers and tables of a program that follow its sizes, as expressions of these.

A model is written for several sizes; what differs between the trees must be explained by them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import combinations
from typing import Any, TypeAlias

from wgcc.from_onnx.literals import literal
from wgcc.from_onnx.patterns import match_list
from wgcc.from_onnx.values import dtype_of
from wgcc.lazy_numpy import Array, np
from wgcc.syntax import ast
from wgcc.syntax.templates import call, fill_form, form, name, rewrite, type_expr

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
            product = item if product is None else fill_form("{0} * {1}", product, item)
        if not self.offset:
            return product  # type: ignore[no-any-return]
        sign = "+" if self.offset > 0 else "-"
        return fill_form(f"{{0}} {sign} {{1}}", product, abs(self.offset))


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

    program = rewrite(file, change)
    assert isinstance(program, ast.File)
    return program


def explain(numbers: Sequence[int], sizes: Sequence[Sizes]) -> Expression | int | None:
    """An expression with these numbers at these sizes; a number if all are equal, None if none."""
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
    candidates = [Expression(first // values[0], names)] if first % values[0] == 0 and first else []
    for value, number in zip(values[1:], numbers[1:], strict=True):
        step = value - values[0]
        if step and (number - first) % step == 0 and (factor := (number - first) // step) > 0:
            candidates.append(Expression(factor, names, first - factor * values[0]))
            break
    return candidates


@dataclass(frozen=True, slots=True)
class Form:
    """The elements of a table by their places.

    `fill`: `first` everywhere. `range`: `first + step * i` along `axis`; `count`: the same along
    all axes, row by row. `triangle`: `step` where the column is more than `first` behind the row,
    else `other`.
    """

    kind: str
    dtype: str
    first: float
    step: float = 0
    axis: int = 0
    other: float = 0

    def tree(self, sizes: Sequence[ast.Expr]) -> ast.Expr:
        """`sizes` are those of the table, as written."""
        if self.kind == "fill":
            return self._constant(sizes)
        if self.kind == "range":
            return self._spread(self._scale(_positions(sizes, self.axis)), sizes)
        if self.kind == "count":
            count = reduce(partial(fill_form, "{0} * {1}"), sizes)
            return call("reshape", self._scale(call("arange", count)), [*sizes])
        rank = len(sizes)
        rows, columns = (_positions(sizes, axis) for axis in (rank - 2, rank - 1))
        limit = fill_form("{0} + {1}", rows, int(self.first)) if self.first else rows
        test = fill_form("{0} > {1}", columns, limit)
        if self.dtype == "bool":
            return test if self.step else fill_form("not {0}", test)
        return call("where", test, self._number(self.step), self._number(self.other))

    def _constant(self, sizes: Sequence[ast.Expr]) -> ast.Expr:
        if self.dtype == "bool":
            nothing = call("zeros", type_expr("f32", sizes))
            return fill_form("{0} == {1}", nothing, 0.0 if self.first else 1.0)
        simple = {0.0: "zeros", 1.0: "ones"}.get(self.first)
        whole = call(simple or "ones", type_expr(self.dtype, sizes))
        return whole if simple else fill_form("{0} * {1}", whole, self._number(self.first))

    def _scale(self, tree: ast.Expr) -> ast.Expr:
        tree = fill_form("f32({0})", tree) if self.dtype == "f32" else tree
        tree = tree if self.step == 1 else fill_form("{0} * {1}", tree, self._number(self.step))
        return fill_form("{0} + {1}", tree, self._number(self.first)) if self.first else tree

    def _spread(self, tree: ast.Expr, sizes: Sequence[ast.Expr]) -> ast.Expr:
        others = [size for axis, size in enumerate(sizes) if axis != self.axis]
        if all(isinstance(size, ast.Int) and size.value == 1 for size in others):
            return tree
        return call("expand", tree, [*sizes])

    def _number(self, value: float) -> ast.Expr:
        return literal(np.array(value, np.float32 if self.dtype == "f32" else np.int64))


def _positions(sizes: Sequence[ast.Expr], axis: int) -> ast.Expr:
    if len(sizes) == 1:
        return call("arange", sizes[0])
    shape = [size if place == axis else 1 for place, size in enumerate(sizes)]
    return call("reshape", call("arange", sizes[axis]), shape)


def form_of(array: Array) -> Form | None:
    dtype = dtype_of(array.dtype)
    if not array.size or dtype not in ("f32", "i32", "bool"):
        return None
    flat = array.reshape(-1)
    if (flat == flat[0]).all():
        return Form("fill", dtype, float(flat[0]))
    return _range_form(array, dtype) or _triangle_form(array, dtype)


def _range_form(array: Array, dtype: str) -> Form | None:
    for axis, size in enumerate(array.shape):
        if size < 2 or dtype == "bool":
            continue
        line = np.moveaxis(array, axis, 0).reshape(size, -1)
        first, step = float(line[0, 0]), float(line[1, 0] - line[0, 0])
        if (line == (first + step * np.arange(size))[:, None]).all() and step == int(step):
            return Form("range", dtype, first, step, axis)
    flat = array.reshape(-1)
    if dtype != "bool":
        first, step = float(flat[0]), float(flat[1] - flat[0])
        if (flat == first + step * np.arange(flat.size)).all() and step == int(step):
            return Form("count", dtype, first, step)
    return None


def _triangle_form(array: Array, dtype: str) -> Form | None:
    if array.ndim < 2 or any(size != 1 for size in array.shape[:-2]):
        return None
    table = array.reshape(array.shape[-2:])
    rows, columns = table.shape
    above, below = table[0, -1], table[-1, 0]
    if above == below:
        return None
    for shift in range(-rows, columns):
        mask = np.arange(columns)[None, :] > np.arange(rows)[:, None] + shift
        if np.array_equal(np.where(mask, above, below), table):
            return Form("triangle", dtype, shift, float(above), 0, float(below))
    return None
