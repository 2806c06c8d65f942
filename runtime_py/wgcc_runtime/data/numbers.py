"""Cells as numbers: what is one, what counts as missing, and which decimal mark a table uses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wgcc_runtime.data.csv_records import Record
from wgcc_runtime.data.source import Source, shown

MISSING = frozenset(("", "NA", "N/A", "NaN", "nan", "null", "None", "NULL", "-", "?", "."))
LARGEST = 3.4028234663852886e38  # of f32
_POINT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_COMMA = re.compile(r"[+-]?(?:[0-9]+,?[0-9]*|,[0-9]+)(?:[eE][+-]?[0-9]+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")
_GIVE = "give --decimal , or --decimal ."

Parse = Callable[[str], "float | None"]


def parse_point(cell: str) -> float | None:
    """The number that a cell holds; None if it is none."""
    return _finite(cell) if _POINT.fullmatch(cell) else None


def parse_comma(cell: str) -> float | None:
    return _finite(cell.replace(",", ".")) if _COMMA.fullmatch(cell) else None


def _finite(text: str) -> float | None:
    value = float(text)
    return value if -LARGEST <= value <= LARGEST else None


def are_numbers(cells: Sequence[str], parse: Parse) -> bool:
    """Whether at least 90 % of the cells that are not missing are numbers."""
    present = [cell for cell in cells if cell not in MISSING]
    found = sum(parse(cell) is not None for cell in present)
    return bool(present) and 10 * found >= 9 * len(present)


def number_parser(
    records: list[Record], delimiter: str, decimal: str | None, source: Source
) -> Parse:
    """How the numbers of a table are read."""
    if decimal is not None:
        return parse_comma if decimal == "," else parse_point
    if delimiter == ",":
        return parse_point
    body = records[1:] or records
    commas = _marked_columns(body, ",", parse_comma)
    if not commas:
        return parse_point
    _refuse_doubt(commas, _marked_columns(body, ".", parse_point), source)
    source.note("Numbers are written with a decimal comma.")
    return parse_comma


@dataclass(frozen=True, slots=True)
class _Marked:
    """The cells of a number column that have a decimal mark, and the place of the first."""

    cells: list[str]
    line: int
    column: int


def _marked_columns(body: list[Record], mark: str, parse: Parse) -> list[_Marked]:
    found = []
    for column in range(len(body[0].cells)):
        cells = [record.cells[column] for record in body]
        marked = [
            (cell, r.line) for cell, r in zip(cells, body, strict=True) if _has(cell, mark, parse)
        ]
        if marked and are_numbers(cells, parse):
            found.append(_Marked([cell for cell, _ in marked], marked[0][1], column + 1))
    return found


def _has(cell: str, mark: str, parse: Parse) -> bool:
    return mark in cell and parse(cell) is not None


def _refuse_doubt(commas: list[_Marked], points: list[_Marked], source: Source) -> None:
    comma = commas[0]
    if points:
        point = points[0]
        raise source.refuse(
            f"{shown(comma.cells[0])} in {source.place(comma.line, comma.column)} has a decimal "
            f"comma, but {shown(point.cells[0])} in {source.place(point.line, point.column)} "
            f"a decimal point: {_GIVE}"
        )
    if all(_THOUSANDS.fullmatch(cell) for column in commas for cell in column.cells):
        cell = comma.cells[0]
        readings = f"{cell.replace(',', '')} or {cell.replace(',', '.')}"
        text = f"{shown(cell)} may be {readings}: {_GIVE}"
        raise source.refuse(text, comma.line, comma.column)
