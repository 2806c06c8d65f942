"""The file that data comes from, and the messages that name a place in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wgcc_runtime.data.problems import DataError, fill_words
from wgcc_runtime.strict_json import table

LONGEST_CELL = 40
BLANKS = " \t\u00a0\r\n"


@dataclass(slots=True)
class Source:
    """The file that is read. `unit` is what `lines` of its records count: line or row."""

    name: str
    unit: str = "line"
    notes: list[str] = field(default_factory=list)

    def note(self, note: str, **values: Any) -> None:
        """`tables/data_notes.json` has the text; `one` and `more` are there by `count`."""
        is_one = values.get("count") == 1
        values |= {"one": is_one, "more": not is_one}
        self.notes.append(fill_words(table("data_notes")[note], values))

    def refuse(
        self, problem: str, line: int | None = None, column: int | None = None, /, **values: Any
    ) -> DataError:
        """The error to raise; its text begins with the file and the place, if there is one."""
        place = self.place(line, column) if line is not None else ""
        return DataError(problem, values, self.name, place)

    def place(self, line: int, column: int | None = None) -> str:
        return f"{self.unit} {line}" + ("" if column is None else f", column {column}")


def quote(cell: str) -> str:
    """A cell in single quotes, cut if it is long, on one line."""
    text = cell if len(cell) <= LONGEST_CELL else cell[:LONGEST_CELL] + "…"
    escapes = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "'" + "".join(escapes.get(letter, letter) for letter in text) + "'"
