"""Cells as numbers: what is one, what counts as missing, and which decimal mark a table uses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wgcc_runtime.data.csv_records import Record
from wgcc_runtime.data.source import Source, quote
from wgcc_runtime.strict_json import table

MISSING = frozenset(table("data_words")["missing"])
LARGEST = 3.4028234663852886e38  # of f32
# One way to read each number, so that matching a whole column takes time in proportion to it.
_POINT = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}[,.][0-9]{3}")

Values = list["float | None"]


class Parser:
    """Reads cells as numbers with this decimal mark."""

    def __init__(self, mark: str) -> None:
        number = _POINT.replace(r"\.", re.escape(mark))
        self.mark = mark
        self._number = re.compile(number)
        self._column = re.compile(f"{number}(?:\n{number})*")

    def number(self, cell: str) -> float | None:
        """The number that a cell holds; None if it is none."""
        if not self._number.fullmatch(cell):
            return None
        value = float(cell.replace(self.mark, "."))
        return value if -LARGEST <= value <= LARGEST else None

    def numbers(self, cells: Sequence[str]) -> Values:
        """The numbers of a column, which is read much faster if all of its cells are numbers."""
        text = "\n".join(cells)
        if self._column.fullmatch(text):
            floats = [*map(float, text.replace(self.mark, ".").split("\n"))]
            if len(floats) == len(cells) and min(floats) >= -LARGEST and max(floats) <= LARGEST:
                return [*floats]
        return [self.number(cell) for cell in cells]


POINT, COMMA = Parser("."), Parser(",")


def are_numbers(cells: Sequence[str], values: Values) -> bool:
    """Whether at least 90 % of the cells that are not missing are numbers."""
    number_count = len(values) - values.count(None)
    if number_count == len(cells):
        return bool(cells)
    present = sum(cell not in MISSING for cell in cells)
    return present > 0 and 10 * number_count >= 9 * present


def number_parser(
    records: list[Record], delimiter: str, decimal: str | None, source: Source
) -> Parser:
    """How the numbers of a table are read."""
    if decimal is not None:
        return COMMA if decimal == "," else POINT
    if delimiter == ",":
        return POINT
    body = records[1:] or records
    commas = _marked_columns(body, ",", COMMA)
    if not commas:
        if delimiter == ";":
            _refuse_thousands(_marked_columns(body, ".", POINT), source)
        return POINT
    _refuse_doubt(commas, _marked_columns(body, ".", POINT), source)
    source.note("decimal-comma")
    return COMMA


@dataclass(frozen=True, slots=True)
class _Marked:
    """The cells of a number column that have a decimal mark, and the place of the first."""

    cells: list[str]
    line: int
    column: int


def _marked_columns(body: list[Record], mark: str, parser: Parser) -> list[_Marked]:
    columns = []
    for column in range(len(body[0].cells)):
        cells = [record.cells[column] for record in body]
        if not any(mark in cell for cell in cells):
            continue
        values = parser.numbers(cells)
        marked = [
            (cell, record.line)
            for cell, value, record in zip(cells, values, body, strict=True)
            if value is not None and mark in cell
        ]
        if marked and are_numbers(cells, values):
            columns.append(_Marked([cell for cell, _ in marked], marked[0][1], column + 1))
    return columns


def _refuse_doubt(commas: list[_Marked], points: list[_Marked], source: Source) -> None:
    comma = commas[0]
    if points:
        point = points[0]
        raise source.refuse(
            "mixed-decimals",
            comma=quote(comma.cells[0]),
            first=source.place(comma.line, comma.column),
            point=quote(point.cells[0]),
            second=source.place(point.line, point.column),
        )
    _refuse_thousands(commas, source)


def _refuse_thousands(columns: list[_Marked], source: Source) -> None:
    """Refuses columns whose marks may all separate thousands."""
    cells = [cell for column in columns for cell in column.cells]
    if cells and all(_THOUSANDS.fullmatch(cell) for cell in cells):
        point = cells[0].replace(",", ".")
        readings = {"whole": point.replace(".", ""), "fraction": point}
        place = columns[0].line, columns[0].column
        raise source.refuse("thousands", *place, cell=quote(cells[0]), **readings)
