"""Element types as numpy names them, and how numbers are rounded to each."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Any

Number = float | int | bool
# How `struct` calls each type. Wider types come first: the first of two types holds both.
_FORMATS = {
    "float64": "d", "float32": "f", "float16": "e", "int64": "q", "uint64": "Q", "int32": "i",
    "uint32": "I", "int8": "b", "uint8": "B", "bool": "?",
}  # fmt: skip
_OTHER_NAMES = {
    "<f8": "float64", "<f4": "float32", "<f2": "float16", "<i8": "int64", "<i4": "int32",
    "<u4": "uint32", "<i1": "int8", "<u1": "uint8",
}  # fmt: skip


class NeedsNumpyError(ValueError):
    """An operation that small arrays do not have."""


class ElementKind:
    """An element type: numpy's `dtype`, and its scalar type when it is called."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.format = _FORMATS[name]
        self.kind = "b" if name == "bool" else name[0]
        self.itemsize = struct.calcsize(f"<{self.format}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (ElementKind, str)) and self.name == dtype(other).name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"dtype({self.name!r})"

    def __call__(self, number: Any) -> Any:
        from wgcc.small_arrays.array import SmallArray

        return SmallArray([self.round(number)], (), self)

    def round(self, number: Any) -> Number:
        """The nearest number of this type; integers wrap around."""
        if self.kind == "f":
            return self._round_float(float(number))
        if self.kind == "b":
            return bool(number)
        bits = 8 * self.itemsize
        whole = int(number) & ((1 << bits) - 1)
        return whole - (1 << bits) if self.kind == "i" and whole >> (bits - 1) else whole

    def _round_float(self, number: float) -> float:
        if self.name == "float64" or not math.isfinite(number):
            return number
        try:
            stored = struct.pack(f"<{self.format}", number)
        except OverflowError:
            return math.copysign(math.inf, number)
        rounded: float = struct.unpack(f"<{self.format}", stored)[0]
        return rounded

    def round_all(self, numbers: Iterable[Any]) -> list[Any]:
        if self.name == "float64":
            return list(map(float, numbers))
        listed = list(numbers)
        if self.name == "float32":
            layout = f"<{len(listed)}f"
            try:
                return list(struct.unpack(layout, struct.pack(layout, *listed)))
            except OverflowError:
                pass  # One of them becomes infinite.
        if self.kind == "b":
            return list(map(bool, listed))
        if self.kind == "f":
            return list(map(self.round, listed))
        mask = (1 << 8 * self.itemsize) - 1
        half = 0 if self.kind == "u" else mask // 2 + 1
        return [(int(number) + half & mask) - half for number in listed]


ELEMENT_TYPES = {name: ElementKind(name) for name in _FORMATS}
ELEMENT_TYPES["bool_"] = ELEMENT_TYPES["bool"]
_PYTHON = {float: "float64", int: "int64", bool: "bool"}


def dtype(name: Any) -> ElementKind:
    """numpy's `dtype`: of a name, a type of Python, or an element type itself."""
    if isinstance(name, ElementKind):
        return name
    name = _PYTHON.get(name, name) if isinstance(name, type) else name
    try:
        return ELEMENT_TYPES[_OTHER_NAMES.get(name, name)]
    except (KeyError, TypeError):
        raise NeedsNumpyError(f"dtype {name!r}") from None


class floating:  # noqa: N801 - numpy's name of the kind
    """The kind of float types, for `issubdtype`."""


def issubdtype(element: Any, kind: type) -> bool:
    if kind is not floating:
        raise NeedsNumpyError(f"issubdtype of {kind!r}")
    return dtype(element).kind == "f"


def promote(x: ElementKind, z: ElementKind) -> ElementKind:
    """The type that holds the numbers of both."""
    if x == z:
        return x
    pair = sorted((x, z), key=lambda item: list(_FORMATS).index(item.name))
    wide, narrow = pair
    if wide.kind == "f" and narrow.kind in "iu" and narrow.itemsize * 2 > wide.itemsize:
        return ELEMENT_TYPES["float64"]
    if wide.kind == "i" and narrow.kind == "u" and narrow.itemsize == wide.itemsize < 8:
        return ELEMENT_TYPES["int64"]
    return wide


def promote_number(x: ElementKind, number: Number) -> ElementKind:
    """The type of a result of an array and a number of Python, which adapts to the array."""
    if isinstance(number, float) and x.kind != "f":
        return ELEMENT_TYPES["float64"]
    if isinstance(number, int) and not isinstance(number, bool) and x.kind == "b":
        return ELEMENT_TYPES["int64"]
    return x
