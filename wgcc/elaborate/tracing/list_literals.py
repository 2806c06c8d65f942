"""Lists of numbers as tensors: `[[1.0, 2.0], [3.0, 4.0]]` is f32[2, 2].

A list stays a list until it is used where a tensor is expected, because `[2, 3]` may be a shape.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.values import AnyValue, BoolValue, ListValue, Number

# A plan holds the numbers.
MOST_NUMBERS = 2**16


class RaggedList(Exception):
    """The lists inside a list differ in length, or one is empty."""


def contents(value: AnyValue) -> tuple[tuple[int, ...], list[AnyValue]]:
    """The sizes of a list of lists, and what it holds, in order."""
    if not isinstance(value, ListValue):
        return (), [value]
    parts = [contents(item) for item in value.items]
    if not parts or any(sizes != parts[0][0] for sizes, _ in parts):
        raise RaggedList
    return (len(parts), *parts[0][0]), [item for _, items in parts for item in items]


def has_fraction(value: AnyValue) -> bool:
    if isinstance(value, ListValue):
        return any(map(has_fraction, value.items))
    return isinstance(value, Number)


def has_bool(value: AnyValue) -> bool:
    if isinstance(value, ListValue):
        return any(map(has_bool, value.items))
    return isinstance(value, BoolValue)


def common_dtype(items: Sequence[AnyValue]) -> str:
    """What numbers are, if nothing else says it: whole ones are i32."""
    if any(isinstance(item, BoolValue) for item in items):
        return "bool"
    return "f32" if any(isinstance(item, Number) for item in items) else "i32"


def plain_number(item: Dim | Number | BoolValue) -> float | int | bool:
    return item.size if isinstance(item, Dim) else item.value
