"""In which order the axes of tensors are stored, and what reshaping does to it."""

from __future__ import annotations

import math

from wgcc.from_onnx.values import Shape, Value

AXIS_NAMES = "abcdefghijklmnop"


def kept_order(value: Value, shape: Shape) -> Shape | None:
    """How axes of a new shape are stored if no element moves; None if some must.

    Axes that are joined must be stored one after the other; parts of a split axis are.
    """
    if math.prod(value.shape) != math.prod(shape):
        return None
    groups = axis_groups(value.shape, shape)
    places = {axis: number for number, (before, _) in enumerate(groups) for axis in before}
    stored = [axis for axis in value.order if axis in places]
    kept: list[int] = []
    for before, _ in groups:
        first = stored.index(before[0])
        if tuple(stored[first : first + len(before)]) != before:
            return None
    for number in dict.fromkeys(places[axis] for axis in stored):
        kept += groups[number][1]
    ones = [axis for axis in range(len(shape)) if axis not in kept]
    for axis in ones:
        kept.insert(axis, axis)
    return tuple(kept)


def axis_groups(before: Shape, after: Shape) -> list[tuple[Shape, Shape]]:
    """The shortest runs of axes longer than 1 that hold the same elements in both shapes."""
    left, right = ([a for a, size in enumerate(s) if size > 1] for s in (before, after))
    found: list[tuple[Shape, Shape]] = []
    while left and right:
        a, b = [left.pop(0)], [right.pop(0)]
        sizes = before[a[0]], after[b[0]]
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                a.append(left.pop(0))
            else:
                b.append(right.pop(0))
            sizes = math.prod(before[x] for x in a), math.prod(after[x] for x in b)
        found.append((tuple(a), tuple(b)))
    return found


def has_free_order(value: Value) -> bool:
    """Whether axes longer than 1 are stored in ONNX's order, so that moving changes nothing."""
    long = [axis for axis in value.order if value.shape[axis] > 1]
    return long == sorted(long)


def axes_pattern(before: Shape, after: Shape) -> str:
    """For `rearrange`: axes by letters, in the one order and in the other."""
    names = ["n", "c", "h", "w"] if len(before) == 4 else list(AXIS_NAMES)
    left, right = (" ".join(names[axis] for axis in order) for order in (before, after))
    return f"{left} -> {right}"
