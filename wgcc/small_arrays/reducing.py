"""Reductions over axes. Sums are added in numpy's order, because each order rounds otherwise."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

from wgcc.small_arrays.array import Axis, SmallArray
from wgcc.small_arrays.elementwise import greater_of, smaller_of
from wgcc.small_arrays.rearranging import transpose

# numpy sums blocks of this many elements in eight columns, and halves what is longer.
BLOCK, COLUMNS = 128, 8


def reduce_axes(array: SmallArray, name: str, axis: Axis) -> SmallArray:
    axes = _axes(array, axis)
    is_contiguous = array.ndim - 1 in axes
    compute = _pairwise_sum if name == "sum" and is_contiguous else _REDUCTIONS[name]
    element = _element(array, name)
    numbers = element.round_all(compute(row) for row in _rows(array, axes))
    kept = [size for at, size in enumerate(array.shape) if at not in axes]
    return SmallArray(numbers, kept, element)


def _element(array: SmallArray, name: str) -> Any:
    from wgcc.small_arrays.element_types import dtype

    if name in ("all", "any"):
        return dtype(bool)
    widens = name in ("sum", "prod") and array.dtype.kind != "f"
    return dtype("uint64" if array.dtype.kind == "u" else "int64") if widens else array.dtype


def _axes(array: SmallArray, axis: Axis) -> list[int]:
    if axis is None:
        return list(range(array.ndim))
    return sorted(at % array.ndim for at in ([axis] if isinstance(axis, int) else axis))


def _rows(array: SmallArray, axes: list[int]) -> list[list[Any]]:
    """The elements that are reduced to one, for each result."""
    others = [at for at in range(array.ndim) if at not in axes]
    numbers = transpose(array, [*others, *axes]).numbers
    count = math.prod(array.shape[at] for at in axes)
    return [numbers[start : start + count] for start in range(0, len(numbers), count or 1)]


def _pairwise_sum(numbers: list[Any]) -> Any:
    if len(numbers) < COLUMNS:
        return _sum_in_order(numbers)
    if len(numbers) > BLOCK:
        half = len(numbers) // 2
        half -= half % COLUMNS
        return _pairwise_sum(numbers[:half]) + _pairwise_sum(numbers[half:])
    whole = len(numbers) - len(numbers) % COLUMNS
    a, b, c, d, e, f, g, h = (_sum_in_order(numbers[at:whole:COLUMNS]) for at in range(COLUMNS))
    return reduce(operator.add, numbers[whole:], ((a + b) + (c + d)) + ((e + f) + (g + h)))


def _sum_in_order(numbers: list[Any]) -> Any:
    """Not `sum`, which newer versions of Python compute more exactly than numpy."""
    return reduce(operator.add, numbers, 0)


_REDUCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": _sum_in_order,
    "prod": math.prod,
    "max": lambda numbers: reduce(greater_of, numbers),
    "min": lambda numbers: reduce(smaller_of, numbers),
    "all": all,
    "any": any,
}
