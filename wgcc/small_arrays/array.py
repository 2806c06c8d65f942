"""A small array: a flat list of numbers, a shape, and an element type."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

from wgcc.small_arrays.element_types import (
    ElementKind,
    NeedsNumpyError,
    Number,
    dtype,
    promote,
    promote_number,
)

Shape = tuple[int, ...]
Axis = int | Sequence[int] | None


class SmallArray:
    """It is not changed in place, but for `x[place] = y` by who made it."""

    __slots__ = ("dtype", "numbers", "shape")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, numbers: list[Any], shape: Sequence[int], element: Any) -> None:
        self.numbers, self.shape, self.dtype = numbers, tuple(shape), dtype(element)

    @property
    def size(self) -> int:
        return len(self.numbers)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def flat(self) -> SmallArray:
        return SmallArray(self.numbers, (self.size,), self.dtype)

    def astype(self, element: Any) -> SmallArray:
        wanted = dtype(element)
        if wanted == self.dtype:
            return self
        return SmallArray(wanted.round_all(self.numbers), self.shape, wanted)

    def copy(self) -> SmallArray:
        return SmallArray(list(self.numbers), self.shape, self.dtype)

    def reshape(self, *shape: Any) -> SmallArray:
        sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        if -1 in sizes:
            rest = math.prod(size for size in sizes if size != -1)
            sizes = tuple(self.size // rest if size == -1 else size for size in sizes)
        if math.prod(sizes) != self.size:
            raise ValueError(f"{self.size} elements have no shape {list(sizes)}")
        return SmallArray(self.numbers, sizes, self.dtype)

    def item(self) -> Number:
        (number,) = self.numbers
        return number  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        if self.ndim > 1:
            return [part.tolist() for part in self]
        return list(self.numbers) if self.shape else self.item()

    def tobytes(self) -> bytes:
        return struct.pack(f"<{self.size}{self.dtype.format}", *self.numbers)

    def sum(self, axis: Axis = None, dtype: Any = None) -> SmallArray:
        return self._reduce("sum", axis, dtype)

    def prod(self, axis: Axis = None) -> SmallArray:
        return self._reduce("prod", axis)

    def max(self, axis: Axis = None, initial: Any = None) -> SmallArray:
        if initial is not None:
            return SmallArray([max([initial, *self.numbers])], (), self.dtype)
        return self._reduce("max", axis)

    def min(self, axis: Axis = None) -> SmallArray:
        return self._reduce("min", axis)

    def all(self, axis: Axis = None) -> SmallArray:
        return self._reduce("all", axis)

    def any(self, axis: Axis = None) -> SmallArray:
        return self._reduce("any", axis)

    def _reduce(self, name: str, axis: Axis, element: Any = None) -> SmallArray:
        from wgcc.small_arrays.reducing import reduce_axes

        return reduce_axes(self if element is None else self.astype(element), name, axis)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[SmallArray]:
        return (self[at] for at in range(self.shape[0]))

    def __getitem__(self, place: Any) -> SmallArray:
        if isinstance(place, SmallArray) and place.dtype == "bool" and place.shape == self.shape:
            kept = [n for n, is_kept in zip(self.numbers, place.numbers, strict=True) if is_kept]
            return SmallArray(kept, (len(kept),), self.dtype)
        if isinstance(place, SmallArray):
            return self._rows(place)
        shape, at = self._places(place)
        return SmallArray([self.numbers[index] for index in at], shape, self.dtype)

    def __setitem__(self, place: Any, values: Any) -> None:
        shape, at = self._places(place)
        given = broadcast_to(asarray(values, self.dtype), shape).numbers
        for index, number in zip(at, given, strict=True):
            self.numbers[index] = number

    def _rows(self, indices: SmallArray) -> SmallArray:
        width = self.size // self.shape[0]
        starts = [index % self.shape[0] * width for index in indices.numbers]
        numbers = [number for start in starts for number in self.numbers[start : start + width]]
        return SmallArray(numbers, (*indices.shape, *self.shape[1:]), self.dtype)

    def _places(self, place: Any) -> tuple[Shape, list[int]]:
        """The shape and the indices of the elements that `x[place]` selects."""
        parts = self._full_place(place if isinstance(place, tuple) else (place,))
        shape: list[int] = []
        ranges: list[range] = []
        stride = self.size
        for part, size in zip(parts, self.shape, strict=True):
            stride = stride // size if size else 0
            if isinstance(part, slice):
                chosen = range(*part.indices(size))
                shape.append(len(chosen))
            else:
                at = int(part)
                if not -size <= at < size:
                    raise IndexError(f"index {at} is outside an axis of {size}")
                chosen = range(at % size, at % size + 1)
            ranges.append(_stride_range(chosen, stride))
        return tuple(shape), [sum(at) for at in product(*ranges)]

    def _full_place(self, parts: tuple[Any, ...]) -> list[Any]:
        if any(part is None or isinstance(part, (list, SmallArray)) for part in parts):
            raise NeedsNumpyError("indices of this form")
        if Ellipsis in parts:
            at = parts.index(Ellipsis)
            missing = self.ndim - len(parts) + 1
            parts = (*parts[:at], *[slice(None)] * missing, *parts[at + 1 :])
        return [*parts, *[slice(None)] * (self.ndim - len(parts))]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NeedsNumpyError(f"numpy.ndarray.{name}")

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    __index__ = __int__

    def __bool__(self) -> bool:
        return bool(self.item())

    def __format__(self, form: str) -> str:
        return format(self.tolist(), form)

    def __repr__(self) -> str:
        return f"{self.tolist()!r}"

    def __invert__(self) -> SmallArray:
        if self.dtype.kind != "b":
            from wgcc.small_arrays.elementwise import invert

            return invert(self)
        return SmallArray([not number for number in self.numbers], self.shape, "bool")

    def __neg__(self) -> SmallArray:
        return _call("negative", self)


def _stride_range(chosen: range, stride: int) -> range:
    """The starts of the chosen indices of an axis."""
    return range(chosen.start * stride, chosen.stop * stride, chosen.step * stride or 1)


def _call(name: str, *operands: Any) -> SmallArray:
    from wgcc.small_arrays.elementwise import ELEMENTWISE

    return ELEMENTWISE[name](*operands)


def _operator(name: str, is_turned: bool = False) -> Callable[[SmallArray, Any], SmallArray]:
    def apply(x: SmallArray, z: Any) -> SmallArray:
        return _call(name, z, x) if is_turned else _call(name, x, z)

    return apply


_ARITHMETIC = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power",
    "floordiv": "floor_divide", "mod": "mod", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
# Python turns these round by itself.
_COMPARISONS = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}  # fmt: skip
for _name, _function in {**_ARITHMETIC, **_COMPARISONS}.items():
    setattr(SmallArray, f"__{_name}__", _operator(_function))
for _name, _function in _ARITHMETIC.items():
    setattr(SmallArray, f"__r{_name}__", _operator(_function, is_turned=True))


def asarray(values: Any, element: Any = None) -> SmallArray:
    array = values if isinstance(values, SmallArray) else _from_python(values)
    return array if element is None else array.astype(element)


def _from_python(values: Any) -> SmallArray:
    if not isinstance(values, (list, tuple)):
        return SmallArray([values], (), type(values))
    parts = [asarray(value) for value in values]
    if not parts:
        return SmallArray([], (0,), float)
    element = parts[0].dtype
    for part in parts:
        element = promote(element, part.dtype)
    numbers = element.round_all(number for part in parts for number in part.numbers)
    return SmallArray(numbers, (len(parts), *parts[0].shape), element)


def full(shape: Any, value: Any, element: Any = None) -> SmallArray:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    number = asarray(value, element)
    return SmallArray(number.numbers * math.prod(sizes), sizes, number.dtype)


def broadcast_to(values: Any, shape: Sequence[int]) -> SmallArray:
    array, sizes = asarray(values), tuple(shape)
    if array.shape == sizes:
        return array
    if array.size == 1:
        return SmallArray(array.numbers * math.prod(sizes), sizes, array.dtype)
    before = (1,) * (len(sizes) - array.ndim) + array.shape
    numbers, block = array.numbers, 1
    for old, new in zip(reversed(before), reversed(sizes), strict=True):
        if old != new:
            starts = range(0, len(numbers), block)
            numbers = [n for start in starts for n in numbers[start : start + block] * new]
        block *= new
    return SmallArray(numbers, sizes, array.dtype)


def shape_of_all(*arrays: SmallArray) -> Shape:
    """The shape that the arrays are broadcast to."""
    shape = [1] * max(array.ndim for array in arrays)
    for array in arrays:
        for at, size in enumerate(reversed(array.shape), 1):
            shape[-at] = size if size != 1 else shape[-at]
    return tuple(shape)


def type_of_both(x: Any, z: Any) -> ElementKind:
    if not isinstance(x, SmallArray) and isinstance(z, SmallArray):
        return promote_number(z.dtype, x)
    if not isinstance(z, SmallArray) and isinstance(x, SmallArray):
        return promote_number(x.dtype, z)
    return promote(asarray(x).dtype, asarray(z).dtype)


def where(condition: Any, x: Any, z: Any) -> SmallArray:
    element = type_of_both(x, z)
    arrays = asarray(condition), asarray(x, element), asarray(z, element)
    shape = shape_of_all(*arrays)
    columns = (broadcast_to(array, shape).numbers for array in arrays)
    numbers = [p if chosen else q for chosen, p, q in zip(*columns, strict=True)]
    return SmallArray(numbers, shape, element)


@contextmanager
def errstate(**_: str) -> Iterator[None]:
    """Small arrays never warn."""
    yield
