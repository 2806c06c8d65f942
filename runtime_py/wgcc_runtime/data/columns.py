"""Records as columns with names and kinds: header, numbers or names, empty and index columns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from wgcc_runtime.data.csv_records import Record
from wgcc_runtime.data.numbers import MISSING, Parser, Values, are_numbers
from wgcc_runtime.data.source import Source
from wgcc_runtime.strict_json import table

NUMBERS, NAMES, EMPTY, INDEX = "numbers", "names", "empty", "index"
INDEX_NAMES = frozenset(table("data_words")["index"])


@dataclass(slots=True)
class Column:
    """`number` counts from 1. `values` are the numbers of a number column, None where none is.

    `first_name` is the first row with a cell that is neither number nor missing, or -1;
    `missing` has the rows without a value. Numbers that were read as amounts have a `unit`, which
    may be empty.
    """

    name: str
    number: int
    cells: list[str]
    kind: str
    values: Values
    first_name: int
    missing: frozenset[int]
    unit: str | None = None

    def present(self) -> list[str]:
        return [cell for cell in self.cells if cell not in MISSING]


@dataclass(frozen=True, slots=True)
class Table:
    """`lines` has the line (or row) of each row of the columns."""

    source: Source
    columns: list[Column]
    lines: list[int]
    has_header: bool


def make_table(
    records: list[Record],
    parser: Parser,
    source: Source,
    asked: Collection[str],
    header: bool | None,
) -> Table:
    """`asked` are names of columns that are no index; `header`: whether there is one, if known."""
    has_header = find_header(records, parser) if header is None else header
    body = records[1:] if has_header else records
    if has_header:
        names = _names(records[0], source)
    else:
        names = [f"column {number + 1}" for number in range(len(records[0].cells))]
        source.note("no-header")
    if not body:
        raise source.refuse("no-rows-below")
    columns = [
        _column(name, number, [record.cells[number] for record in body], parser)
        for number, name in enumerate(names)
    ]
    for column in columns:
        if column.kind == EMPTY:
            source.note("column-empty", column=column.name)
    first = records[0].cells[0].lower() if has_header else "data"
    if first in INDEX_NAMES and columns[0].name not in asked and _is_index(columns[0]):
        columns[0].kind = INDEX
        source.note("column-numbers-rows", column=columns[0].name)
    return Table(source, columns, [record.line for record in body], has_header)


def find_header(records: list[Record], parser: Parser) -> bool:
    first, body = records[0].cells, records[1:]
    below = [[record.cells[number] for record in body] for number in range(len(first))]
    texts = [cell not in MISSING and parser.number(cell) is None for cell in first]
    columns = zip(texts, below, strict=True)
    if any(text and are_numbers(cells, parser.numbers(cells)) for text, cells in columns):
        return True
    names = first[1:] if first[0] == "" else first
    all_text = bool(names) and all(texts[-len(names) :])
    repeated = any(cell in cells for cell, cells in zip(first, below, strict=True) if cell)
    return all_text and len(set(names)) == len(names) and not repeated


def _names(header: Record, source: Source) -> list[str]:
    names = [cell or f"column {number + 1}" for number, cell in enumerate(header.cells)]
    first: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if name in first:
            raise source.refuse(
                "equal-names", header.line, first=first[name], second=number, column=name
            )
        first[name] = number
    return names


def _column(name: str, number: int, cells: list[str], parser: Parser) -> Column:
    values = parser.numbers(cells)
    missing, odd = set(), -1
    if None in values:
        missing = {row for row, cell in enumerate(cells) if cell in MISSING}
        odd = next((r for r, v in enumerate(values) if v is None and r not in missing), -1)
    kind = NUMBERS if are_numbers(cells, values) else NAMES
    if len(missing) == len(cells):
        kind = EMPTY
    kept = [] if kind == NAMES else values
    return Column(name, number + 1, cells, kind, kept, odd, frozenset(missing))


def _is_index(column: Column) -> bool:
    if column.kind == NAMES:
        return len(set(column.present())) == len(column.cells)
    values = [value for value in column.values if value is not None and value == value // 1]
    is_whole = len(values) == len(column.cells) and len(set(values)) == len(values)
    return is_whole and max(values) - min(values) == len(values) - 1
