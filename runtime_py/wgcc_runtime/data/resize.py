"""Pictures of any size as the rows of an input: cropped, averaged, as colours or grey.

JavaScript does the same arithmetic in the same order, so that both get the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.data.form import Port

CHANNELS = (1, 3, 4)
WHITE = 255.0


@dataclass(frozen=True, slots=True)
class Layout:
    """How a row of an input holds a picture: `chw`, `hwc` or `hw`."""

    order: str
    height: int
    width: int
    channels: int


def layout_of(port: Port) -> Layout | None:
    """The layout of an input, if its rows have the shape of a picture."""
    shape = port.row_shape
    if len(shape) == 3 and shape[0] in CHANNELS:
        return Layout("chw", shape[1], shape[2], shape[0])
    if len(shape) == 3 and shape[2] in CHANNELS:
        return Layout("hwc", shape[0], shape[1], shape[2])
    return Layout("hw", shape[0], shape[1], 1) if len(shape) == 2 else None


def picture_row(pixels: Array, layout: Layout, scale: float) -> Array:
    """One row in float64, from height x width x RGBA of 0 to 255."""
    small = _average(_on_white(pixels), layout.height, layout.width)
    if layout.channels == 1:
        grey = 0.299 * small[..., 0] + 0.587 * small[..., 1] + 0.114 * small[..., 2]
        small = grey[..., None]
    elif layout.channels == 4:
        opaque = np.full((*small.shape[:2], 1), WHITE)
        small = np.concatenate([small, opaque], axis=2)
    small = small / scale
    if layout.order == "chw":
        return np.ascontiguousarray(small.transpose(2, 0, 1))
    return small[..., 0] if layout.order == "hw" else small


def _on_white(pixels: Array) -> Array:
    alpha = pixels[..., 3:]
    return (pixels[..., :3] * alpha + WHITE * (WHITE - alpha)) / WHITE


def _average(pixels: Array, height: int, width: int) -> Array:
    """The middle part with the wanted proportions, by the average over each new pixel's area."""
    rows, columns = pixels.shape[:2]
    tall, wide = float(rows), float(columns)
    if columns * height > rows * width:
        wide = rows * width / height
    else:
        tall = columns * height / width
    across = _average_rows(pixels.transpose(1, 0, 2), (columns - wide) / 2, wide / width, width)
    return _average_rows(across.transpose(1, 0, 2), (rows - tall) / 2, tall / height, height)


def _average_rows(values: Array, start: float, step: float, count: int) -> Array:
    """New row i is the average over old rows from start + i * step to start + (i + 1) * step."""
    averages = np.zeros((count, *values.shape[1:]))
    for row in range(count):
        low, high = start + row * step, start + (row + 1) * step
        # Rounding must not lead beyond the picture.
        for old in range(max(int(low), 0), len(values)):
            overlap = min(high, old + 1) - max(low, old)
            if overlap <= 0:
                break
            averages[row] += overlap / step * values[old]
    return averages
