"""Frames of pandas and polars as arrays; neither is imported, a frame is known by its attributes.

Errors name the column, and the row as numpy counts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wgcc_runtime.errors import WgccError

NUMBERS = "fiub"
MOST_NAMES = 8
READ = "encode it as numbers, or use `wgcc_runtime.read_data(frame, model)`, which does"


def is_frame(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("columns", "dtypes", "shape", "__array__"))


def column_names(value: Any) -> tuple[str, ...]:
    """The names of a frame's columns, () for anything else."""
    return tuple(map(str, value.columns)) if is_frame(value) else ()


def frame_array(frame: Any, what: str) -> npt.NDArray[Any]:
    """The numbers of a frame, one row for each of its rows."""
    columns = [frame[name] for name in frame.columns]
    arrays = [
        column_array(column, f"{what}, column `{name}`")
        for name, column in zip(frame.columns, columns, strict=True)
    ]
    return np.stack(arrays, axis=1) if arrays else np.zeros((len(frame), 0), np.float32)


def column_array(column: Any, what: str) -> npt.NDArray[Any]:
    """The numbers of one column; missing ones are NaN."""
    array = np.asarray(column)
    if array.dtype.kind in NUMBERS:
        return array
    if array.dtype != object:
        raise WgccError("dtype", f"{what} holds {array.dtype.name}, not numbers: {READ}", what)
    missing = np.array([is_missing(item) for item in array], bool)
    for row in np.flatnonzero(~missing):
        if not isinstance(array[row], (int, float, np.number, np.bool_)):
            text = f"{what} holds {array[row]!r} in row {row}, not a number: {READ}"
            raise WgccError("dtype", text, what)
    return np.array([np.nan if gone else item for item, gone in zip(array, missing, strict=True)])


def is_missing(item: Any) -> bool:
    """None, NaN, or what pandas has for a missing value or time."""
    is_nan = isinstance(item, float | np.floating) and np.isnan(item)
    is_time = isinstance(item, np.datetime64 | np.timedelta64) and np.isnat(item)
    return item is None or bool(is_nan or is_time) or type(item).__name__ in ("NAType", "NaTType")


def place_text(index: Sequence[int], columns: Sequence[str]) -> str:
    """The place of a number: `[3, 1]`, or the row and column of a frame."""
    if len(index) == 2 and index[1] < len(columns):
        return f"row {index[0]} of column `{columns[index[1]]}`"
    return str(list(index))


def column_list(columns: Sequence[str]) -> str:
    """The columns of a frame, for a message about a shape."""
    if not columns:
        return ""
    more = ", …" if len(columns) > MOST_NAMES else ""
    return f" (columns {', '.join(columns[:MOST_NAMES])}{more})"
