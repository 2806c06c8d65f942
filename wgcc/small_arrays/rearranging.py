"""Small arrays with the same numbers in another order, and arrays of a rule."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from wgcc.small_arrays.array import SmallArray, asarray, full
from wgcc.small_arrays.element_types import NeedsNumpyError, dtype, promote


def arange(count: int, dtype: Any = int) -> SmallArray:
    return SmallArray(list(range(count)), (count,), dtype)


def zeros(shape: Any, element: Any = float) -> SmallArray:
    return full(shape, 0, element)


def ones(shape: Any, element: Any = float) -> SmallArray:
    return full(shape, 1, element)


def ndindex(*shape: int) -> Iterable[tuple[int, ...]]:
    return product(*map(range, shape))


def frombuffer(data: bytes, element: Any) -> SmallArray:
    kind = dtype(element)
    count = len(data) // kind.itemsize
    return SmallArray(list(struct.unpack(f"<{count}{kind.format}", data)), (count,), kind)


def reshape(values: Any, shape: Sequence[int]) -> SmallArray:
    return asarray(values).reshape(shape)


def concatenate(parts: Iterable[Any], axis: int = 0) -> SmallArray:
    arrays = [asarray(part) for part in parts]
    element = arrays[0].dtype
    for array in arrays:
        element = promote(element, array.dtype)
    axis %= arrays[0].ndim
    outer = math.prod(arrays[0].shape[:axis])
    widths = [array.size // outer if outer else 0 for array in arrays]
    numbers: list[Any] = []
    for at in range(outer):
        for array, width in zip(arrays, widths, strict=True):
            numbers += array.numbers[at * width : (at + 1) * width]
    shape = list(arrays[0].shape)
    shape[axis] = sum(array.shape[axis] for array in arrays)
    return SmallArray(element.round_all(numbers), shape, element)


def pad(values: Any, widths: tuple[int, int], constant_values: Any = 0) -> SmallArray:
    """Add so many elements before and after those of one axis."""
    array, (before, after) = asarray(values), widths
    (filler,) = array.dtype.round_all([constant_values])
    numbers = [filler] * before + array.numbers + [filler] * after
    return SmallArray(numbers, (len(numbers),), array.dtype)


def sort(values: Any, axis: int = -1) -> SmallArray:
    array = asarray(values)
    if axis % array.ndim != array.ndim - 1:
        raise NeedsNumpyError("sort of an outer axis")
    width = array.shape[-1]
    starts = range(0, array.size, width) if width else range(0)
    numbers = [n for start in starts for n in sorted(array.numbers[start : start + width])]
    return SmallArray(numbers, array.shape, array.dtype)


def bincount(values: SmallArray, minlength: int = 0) -> SmallArray:
    counts = [0] * max([minlength, *(number + 1 for number in values.numbers)])
    for number in values.numbers:
        counts[number] += 1
    return SmallArray(counts, (len(counts),), int)


def array_equal(x: Any, z: Any) -> bool:
    left, right = asarray(x), asarray(z)
    return left.shape == right.shape and left.numbers == right.numbers


def stack(parts: Iterable[Any]) -> SmallArray:
    return asarray(list(parts))


def transpose(values: Any, order: Sequence[int] | None = None) -> SmallArray:
    array = asarray(values)
    axes = list(order) if order is not None else list(reversed(range(array.ndim)))
    strides = [math.prod(array.shape[axis + 1 :]) for axis in axes]
    shape = [array.shape[axis] for axis in axes]
    steps = [range(0, n * stride, stride) for n, stride in zip(shape, strides, strict=True)]
    return SmallArray([array.numbers[sum(at)] for at in product(*steps)], shape, array.dtype)


def moveaxis(values: Any, source: int, target: int) -> SmallArray:
    array = asarray(values)
    axes = [axis for axis in range(array.ndim) if axis != source % array.ndim]
    axes.insert(target % array.ndim, source % array.ndim)
    return transpose(array, axes)


def flip(values: Any, axes: int | Sequence[int]) -> SmallArray:
    array = asarray(values)
    chosen = {axis % array.ndim for axis in ([axes] if isinstance(axes, int) else axes)}
    steps = (-1 if at in chosen else 1 for at in range(array.ndim))
    return array[tuple(slice(None, None, step) for step in steps)]


def roll(values: Any, shift: int, axis: int) -> SmallArray:
    array = asarray(values)
    start = -shift % array.shape[axis]
    before: tuple[Any, ...] = (slice(None),) * (axis % array.ndim)
    parts = [(*before, slice(start, None)), (*before, slice(start))]
    return concatenate([array[part] for part in parts], axis)


def repeat(values: Any, times: int, axis: int) -> SmallArray:
    array = asarray(values)
    block = math.prod(array.shape[axis % array.ndim + 1 :])
    starts = range(0, array.size, block)
    numbers = [n for start in starts for n in array.numbers[start : start + block] * times]
    shape = list(array.shape)
    shape[axis] *= times
    return SmallArray(numbers, shape, array.dtype)
