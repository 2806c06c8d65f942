"""Frames of pandas and polars as tables, by the same rules as CSV and JSON.

Rows in messages are counted from 0, as numpy and frames count them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wgcc_runtime.arrays import is_missing
from wgcc_runtime.data.csv_records import Delimited, Record
from wgcc_runtime.data.source import BLANKS, Source


def frame_records(frame: Any, source: Source) -> Delimited:
    """The names of the columns, then a record for each row."""
    source.unit = "row"
    names = [_column_name(name) for name in frame.columns]
    columns = [np.asarray(frame[name]) for name in frame.columns]
    if not names or not len(columns[0]):
        raise source.refuse("empty-file")
    records = [Record(0, names)]
    for row in range(len(columns[0])):
        cells = [_cell(column[row], row, at, source) for at, column in enumerate(columns, 1)]
        records.append(Record(row, cells))
    return Delimited(records, "")


def frame_columns(frame: Any) -> dict[str, Any]:
    """The frame's own name of each column, by the name that a preparation has for it."""
    return {_column_name(name): name for name in frame.columns}


def _column_name(name: Any) -> str:
    return str(name).strip(BLANKS)


def _cell(value: Any, row: int, column: int, source: Source) -> str:
    if isinstance(value, list | tuple | dict | np.ndarray):
        raise source.refuse("json-nested", row, column)
    return cell_text(value)


def cell_text(value: Any) -> str:
    """One value as a file of a table would have it."""
    if is_missing(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return repr(float(value))
    return str(value).strip(BLANKS)
