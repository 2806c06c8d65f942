"""Where in a file something is, and how messages about it are written."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wgcc_runtime.errors import WgccError

LONGEST_CELL = 40
MOST_ITEMS = 12
BLANKS = " \t\u00a0\r\n"


@dataclass(slots=True)
class Source:
    """The file that is read. `unit` is what `lines` of its records count: line or row."""

    name: str
    unit: str = "line"
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def refuse(self, what: str, line: int | None = None, column: int | None = None) -> WgccError:
        """The error to raise; its text begins with the file and the place, if there is one."""
        place = f", {self.place(line, column)}" if line is not None else ""
        return WgccError("data", f"{self.name}{place}: {what}", self.name)

    def place(self, line: int, column: int | None = None) -> str:
        return f"{self.unit} {line}" + ("" if column is None else f", column {column}")


def shown(cell: str) -> str:
    """A cell in single quotes, cut if it is long, on one line."""
    text = cell if len(cell) <= LONGEST_CELL else cell[:LONGEST_CELL] + "…"
    escapes = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "'" + "".join(escapes.get(letter, letter) for letter in text) + "'"


def listed(items: Iterable[str]) -> str:
    """`a, b, c`, cut after `MOST_ITEMS`."""
    found: Sequence[str] = list(items)
    more = ", …" if len(found) > MOST_ITEMS else ""
    return ", ".join(found[:MOST_ITEMS]) + more


def pasted(names: Sequence[str]) -> str:
    """`a,"b, c"` as one word of a command line, as `--columns` takes it: it can be pasted."""
    return shlex.quote(",".join(map(_field, names)))


def _field(name: str) -> str:
    is_plain = "," not in name and '"' not in name
    return name if is_plain else '"' + name.replace('"', '""') + '"'


def counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
