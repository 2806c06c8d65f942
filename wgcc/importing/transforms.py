"""How a tensor of a file becomes a parameter: some of its rows, its axes in another order.

Knows shapes and arrays, not names. Axes of size 1 come and go as the parameter needs them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wgcc.errors import WgError
from wgcc.lazy_numpy import Array

Shape = tuple[int, ...]

# PyTorch keeps filters as [outputs, inputs, height, width]; here they are [height, width, inputs,
# outputs].
HWIO = (2, 3, 1, 0)
TRANSPOSED = (1, 0)
_WORDS = {"transposed": TRANSPOSED, "hwio": HWIO}
WORDS = "transposed, hwio, `axes 2,0,1`, `rows 0:64`"


@dataclass(frozen=True, slots=True)
class Transform:
    """First `rows` (of the first axis, end excluded), then `axes` in that order."""

    axes: Shape = ()
    rows: tuple[int, int] | None = None

    def shape(self, shape: Shape) -> Shape | None:
        """What becomes of a shape; None if it does not fit."""
        if self.rows is not None:
            if not shape or not 0 <= self.rows[0] < self.rows[1] <= shape[0]:
                return None
            shape = (self.rows[1] - self.rows[0], *shape[1:])
        if not self.axes:
            return shape
        if sorted(self.axes) != list(range(len(shape))):
            return None
        return tuple(shape[axis] for axis in self.axes)

    def apply(self, array: Array) -> Array:
        if self.rows is not None:
            array = array[self.rows[0] : self.rows[1]]
        return array.transpose(self.axes) if self.axes else array

    def text(self) -> str:
        parts = [f"rows {self.rows[0]}:{self.rows[1]}"] if self.rows else []
        named = {axes: word for word, axes in _WORDS.items()}
        if self.axes:
            parts.append(named.get(self.axes) or "axes " + ",".join(map(str, self.axes)))
        return ", ".join(parts)


AS_IS = Transform()


def same_but_ones(a: Shape, b: Shape) -> bool:
    """Are two shapes equal, axes of size 1 left out?"""
    return [n for n in a if n != 1] == [n for n in b if n != 1]


def read_transform(text: str, where: str) -> Transform:
    """The opposite of `text()`."""
    axes: Shape = ()
    rows = None
    for part in re.split(r",\s*(?=[a-z])", text.strip()) if text.strip() else []:
        if part in _WORDS:
            axes = _WORDS[part]
        elif match := re.fullmatch(r"axes (\d(?:,\d)*)", part):
            axes = tuple(int(n) for n in match[1].split(","))
        elif match := re.fullmatch(r"rows (\d{1,12}):(\d{1,12})", part):
            rows = (int(match[1]), int(match[2]))
        else:
            raise WgError(f"{where}: `{part}` is no way to turn a tensor; there are {WORDS}")
    return Transform(axes, rows)
