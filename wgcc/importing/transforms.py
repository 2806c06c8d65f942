"""How a tensor of a file becomes a parameter: a part of it is selected, its axes are reordered.

Knows shapes and arrays, not names. Axes of size 1 are added and removed as the parameter needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from wgcc.errors import WgError
from wgcc.lazy_numpy import Array

Shape = tuple[int, ...]
Range = tuple[int, int]

# PyTorch stores kernels as [outputs, inputs, height, width], wgcc as [height, width, inputs,
# outputs].
HWIO = (2, 3, 1, 0)
TRANSPOSED = (1, 0)
_NAMED = {"transposed": TRANSPOSED, "hwio": HWIO}
WORDS = "transposed, hwio, `axes 2,0,1`, `rows 0:64`, `columns 0:64`, flipped, reshaped"


@dataclass(frozen=True, slots=True)
class Transform:
    """First `rows` and `columns` (of the first two axes, end excluded), then the order of `axes`.

    `flipped` reverses all axes of the source after its first two, as the kernel of a transposed
    convolution needs it. `reshaped` then gives the elements the shape of the parameter.
    """

    axes: Shape = ()
    rows: Range | None = None
    columns: Range | None = None
    flipped: bool = False
    reshaped: bool = False

    def shape(self, shape: Shape) -> Shape | None:
        """The resulting shape; None if the transform does not fit."""
        for axis, part in enumerate((self.rows, self.columns)):
            if part is not None:
                if axis >= len(shape) or not 0 <= part[0] < part[1] <= shape[axis]:
                    return None
                shape = (*shape[:axis], part[1] - part[0], *shape[axis + 1 :])
        if not self.axes:
            return shape
        if sorted(self.axes) != list(range(len(shape))):
            return None
        return tuple(shape[axis] for axis in self.axes)

    def fits(self, shape: Shape, wanted: Shape) -> bool:
        found = self.shape(shape)
        if found is None:
            return False
        return prod(found) == prod(wanted) if self.reshaped else same_but_ones(found, wanted)

    def apply(self, array: Array) -> Array:
        if self.rows is not None:
            array = array[slice(*self.rows)]
        if self.columns is not None:
            array = array[:, slice(*self.columns)]
        if self.flipped:
            array = array[(slice(None),) * 2 + (slice(None, None, -1),) * (array.ndim - 2)]
        return array.transpose(self.axes) if self.axes else array

    def text(self) -> str:
        parts = [f"rows {self.rows[0]}:{self.rows[1]}"] if self.rows else []
        parts += [f"columns {self.columns[0]}:{self.columns[1]}"] if self.columns else []
        parts += ["flipped"] if self.flipped else []
        if self.axes:
            named = {axes: word for word, axes in _NAMED.items()}
            parts.append(named.get(self.axes) or "axes " + ",".join(map(str, self.axes)))
        return ", ".join(parts + ["reshaped"] * self.reshaped)


AS_IS = Transform()


def without_ones(shape: Shape) -> Shape:
    return tuple(size for size in shape if size != 1)


def same_but_ones(a: Shape, b: Shape) -> bool:
    """Are two shapes equal, ignoring axes of size 1?"""
    return without_ones(a) == without_ones(b)


def read_transform(text: str, where: str) -> Transform:
    """The inverse of `text()`."""
    axes: Shape = ()
    parts: dict[str, Range] = {}
    words = re.split(r",\s*(?=[a-z])", text.strip()) if text.strip() else []
    for word in words:
        if word in _NAMED:
            axes = _NAMED[word]
        elif match := re.fullmatch(r"axes (\d(?:, ?\d)*)", word):
            axes = tuple(int(n) for n in match[1].split(","))
        elif match := re.fullmatch(r"(rows|columns) (\d{1,12}):(\d{1,12})", word):
            parts[match[1]] = (int(match[2]), int(match[3]))
        elif word not in ("flipped", "reshaped"):
            raise WgError(f"{where}: `{word}` is not a change of a tensor; there are {WORDS}")
    rows, columns = parts.get("rows"), parts.get("columns")
    return Transform(axes, rows, columns, "flipped" in words, "reshaped" in words)
