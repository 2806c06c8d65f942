"""Tables that follow from their sizes: one number everywhere, positions, causal masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.from_onnx.literals import number_text
from wgcc.from_onnx.values import dtype_of
from wgcc.lazy_numpy import Array, np


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

    def text(self, sizes: Sequence[str]) -> str:
        """`sizes` are those of the table, as written."""
        if self.kind == "fill":
            return self._filled(f"[{', '.join(sizes)}]")
        if self.kind == "range":
            return self._spread(self._scaled(_positions(sizes, self.axis)), sizes)
        if self.kind == "count":
            count = " * ".join(f"({size})" if " " in size else size for size in sizes)
            return f"reshape({self._scaled(f'arange({count})')}, [{', '.join(sizes)}])"
        rank = len(sizes)
        rows, columns = (_positions(sizes, axis) for axis in (rank - 2, rank - 1))
        shift = f" + {int(self.first)}" if self.first else ""
        test = f"{columns} > {rows}{shift}"
        if self.dtype == "bool":
            return test if self.step else f"not ({test})"
        return f"where({test}, {self._number(self.step)}, {self._number(self.other)})"

    def _filled(self, shape: str) -> str:
        if self.dtype == "bool":
            return f"zeros(f32{shape}) == {'0.0' if self.first else '1.0'}"
        simple = {0.0: "zeros", 1.0: "ones"}.get(self.first)
        if simple:
            return f"{simple}({self.dtype}{shape})"
        return f"ones({self.dtype}{shape}) * {self._number(self.first)}"

    def _scaled(self, text: str) -> str:
        text = f"f32({text})" if self.dtype == "f32" else text
        text = text if self.step == 1 else f"{text} * {self._number(self.step)}"
        return f"{text} + {self._number(self.first)}" if self.first else text

    def _spread(self, text: str, sizes: Sequence[str]) -> str:
        if all(size == "1" for axis, size in enumerate(sizes) if axis != self.axis):
            return text
        return f"expand({text}, [{', '.join(sizes)}])"

    def _number(self, value: float) -> str:
        return number_text(np.array(value, np.float32 if self.dtype == "f32" else np.int64))


def _positions(sizes: Sequence[str], axis: int) -> str:
    if len(sizes) == 1:
        return f"arange({sizes[0]})"
    shape = [size if place == axis else "1" for place, size in enumerate(sizes)]
    return f"reshape(arange({sizes[axis]}), [{', '.join(shape)}])"


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
