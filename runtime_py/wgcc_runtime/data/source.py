"""Where in a file something is, and how messages about it are written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wgcc_runtime.data.problems import DataError

LONGEST_CELL = 40
BLANKS = " \t\u00a0\r\n"


@dataclass(slots=True)
class Source:
    """The file that is read. `unit` is what `lines` of its records count: line or row."""

    name: str
    unit: str = "line"
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def refuse(
        self, problem: str, line: int | None = None, column: int | None = None, /, **values: Any
    ) -> DataError:
        """The error to raise; its text begins with the file and the place, if there is one."""
        place = self.place(line, column) if line is not None else ""
        return DataError(problem, values, self.name, place)

    def place(self, line: int, column: int | None = None) -> str:
        return f"{self.unit} {line}" + ("" if column is None else f", column {column}")


def shown(cell: str) -> str:
    """A cell in single quotes, cut if it is long, on one line."""
    text = cell if len(cell) <= LONGEST_CELL else cell[:LONGEST_CELL] + "…"
    escapes = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "'" + "".join(escapes.get(letter, letter) for letter in text) + "'"
