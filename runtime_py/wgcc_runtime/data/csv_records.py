"""Delimited text as records of cells, each with the line where it starts (RFC 4180)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from wgcc_runtime.data.source import BLANKS, Source

DELIMITERS = "\t;,|"
# The delimiter is chosen by the first records.
LOOKED_AT = 100
# And lines: a quote that is never closed would make the rest of the file one record.
LINES_LOOKED_AT = 10_000
# The share of them that must have the same number of fields.
MOST = 0.5
_SEP_LINE = re.compile(r"sep=(.)(?:\r\n|\r|\n|$)", re.IGNORECASE)
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Record:
    """The trimmed cells of a record, and the number of its first line."""

    line: int
    cells: list[str]


@dataclass(frozen=True, slots=True)
class Delimited:
    """Records and their delimiter; a single column has none ("")."""

    records: list[Record]
    delimiter: str


def read_records(text: str, source: Source) -> Delimited:
    """All records; every one has as many cells as the first."""
    first = _SEP_LINE.match(text)
    lines = _LINE_END.split(text)
    if first:
        delimiter, skipped = first[1], 1
    else:
        delimiter, skipped = find_delimiter(lines), 0
    records = list(_records(lines, skipped, delimiter, source))
    if not records:
        raise source.refuse("empty-file")
    width = len(records[0].cells)
    return Delimited([_of_width(record, width, source) for record in records], delimiter)


def find_delimiter(lines: list[str]) -> str:
    """The one that gives most of the first records the same number of fields; "" for none."""
    best, best_share = "", 0.0
    first = lines[:LINES_LOOKED_AT]
    for delimiter in DELIMITERS:
        counts: Counter[int] = Counter()
        for record in _records(first, 0, delimiter, None):
            counts[len(record.cells)] += 1
            if counts.total() == LOOKED_AT:
                break
        total = counts.total()
        share = max((n / total for width, n in counts.items() if width > 1), default=0.0)
        if share >= MOST and share > best_share:
            best, best_share = delimiter, share
    return best


def _of_width(record: Record, width: int, source: Source) -> Record:
    cells = record.cells
    if len(cells) > width and not any(cells[width:]):
        return Record(record.line, cells[:width])
    if len(cells) != width:
        raise source.refuse(
            "field-count", record.line, count=len(cells), unit=source.unit, width=width
        )
    return record


def _records(
    lines: list[str], skipped: int, delimiter: str, source: Source | None
) -> Iterator[Record]:
    """Without a source, an unclosed quote ends with the text."""
    at = skipped
    while at < len(lines):
        line, start = lines[at], at + 1
        at += 1
        if not line.strip(BLANKS):
            continue
        if '"' not in line:
            cells = line.split(delimiter) if delimiter else [line]
            yield Record(start, [cell.strip(BLANKS) for cell in cells])
            continue
        fields = _Quoted(delimiter, start)
        while fields.add(line) and at < len(lines):
            line = "\n" + lines[at]
            at += 1
        if fields.opened and source:
            raise source.refuse("open-quote", *fields.opened)
        yield Record(start, fields.cells())


class _Quoted:
    """The fields of a record with quotes, which may go on over several lines."""

    def __init__(self, delimiter: str, line: int) -> None:
        self._delimiter, self._line = delimiter, line
        self._sign = re.compile(f'["{re.escape(delimiter)}]')
        self._done: list[str] = []
        self._field: list[str] = []
        self._is_blank = True
        # Line and column of the quote that is open.
        self.opened: tuple[int, int] | None = None

    def add(self, text: str) -> bool:
        """Whether a quote is still open at the end of this line."""
        if text.startswith("\n"):
            self._line += 1
        at = 0
        while at < len(text):
            at = self._inside(text, at) if self.opened else self._outside(text, at)
        return self.opened is not None

    def cells(self) -> list[str]:
        return [field.strip(BLANKS) for field in (*self._done, "".join(self._field))]

    def _inside(self, text: str, at: int) -> int:
        """Takes text up to the next quote, which closes the field or is one of a doubled pair."""
        end = text.find('"', at)
        if end < 0:
            self._take(text[at:])
            return len(text)
        self._take(text[at:end])
        if text[end + 1 : end + 2] == '"':
            self._take('"')
            return end + 2
        self.opened = None
        return end + 1

    def _outside(self, text: str, at: int) -> int:
        """Takes text up to the next sign, which ends the field or may open a quote."""
        sign = self._sign.search(text, at)
        self._take(text[at : sign.start() if sign else len(text)])
        if sign is None:
            return len(text)
        if sign[0] == self._delimiter:
            self._done.append("".join(self._field))
            self._field, self._is_blank = [], True
        elif self._is_blank:
            self._field = []
            self.opened = self._line, len(self._done) + 1
        else:
            self._take('"')
        return sign.end()

    def _take(self, text: str) -> None:
        self._field.append(text)
        self._is_blank = self._is_blank and not text.strip(BLANKS)
