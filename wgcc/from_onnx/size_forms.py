"""Tables that follow from their sizes: one number everywhere, positions, causal masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

from wgcc.from_onnx.literals import literal
from wgcc.from_onnx.values import dtype_of
from wgcc.lazy_numpy import Array, np
from wgcc.syntax import ast
from wgcc.syntax.templates import call, filled, typed


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
            return self._filled(sizes)
        if self.kind == "range":
            return self._spread(self._scaled(_positions(sizes, self.axis)), sizes)
        if self.kind == "count":
            count = reduce(partial(filled, "{0} * {1}"), sizes)
            return call("reshape", self._scaled(call("arange", count)), [*sizes])
        rank = len(sizes)
        rows, columns = (_positions(sizes, axis) for axis in (rank - 2, rank - 1))
        limit = filled("{0} + {1}", rows, int(self.first)) if self.first else rows
        test = filled("{0} > {1}", columns, limit)
        if self.dtype == "bool":
            return test if self.step else filled("not {0}", test)
        return call("where", test, self._number(self.step), self._number(self.other))

    def _filled(self, sizes: Sequence[ast.Expr]) -> ast.Expr:
        if self.dtype == "bool":
            nothing = call("zeros", typed("f32", sizes))
            return filled("{0} == {1}", nothing, 0.0 if self.first else 1.0)
        simple = {0.0: "zeros", 1.0: "ones"}.get(self.first)
        whole = call(simple or "ones", typed(self.dtype, sizes))
        return whole if simple else filled("{0} * {1}", whole, self._number(self.first))

    def _scaled(self, tree: ast.Expr) -> ast.Expr:
        tree = filled("f32({0})", tree) if self.dtype == "f32" else tree
        tree = tree if self.step == 1 else filled("{0} * {1}", tree, self._number(self.step))
        return filled("{0} + {1}", tree, self._number(self.first)) if self.first else tree

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
