"""Cells as classes: names become ids, in an order that does not depend on the rows' order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.data.columns import NUMBERS, Column, Table
from wgcc_runtime.data.form import Port
from wgcc_runtime.data.known_classes import KnownClasses, new_names
from wgcc_runtime.data.source import quote


@dataclass(frozen=True, slots=True)
class Classes:
    """The id of each row, and the names of the classes; None where numbers are just numbers."""

    ids: Array
    names: list[str] | None


def read_classes(
    table: Table, column: Column, rows: Sequence[int], port: Port, known: KnownClasses | None
) -> Classes:
    """The ids of the given rows."""
    names = known.names if known else ()
    if column.kind == NUMBERS:
        numbers = [_whole(table, column, row) for row in rows]
        if _stay(numbers, port, names):
            _note_ids(table, column, numbers, names)
            return Classes(np.array(numbers, np.int64), _class_names(numbers, port, names))
        order = [str(number) for number in sorted(set(numbers))]
        cells = [str(number) for number in numbers]
    else:
        cells = [column.cells[row] for row in rows]
        order = sorted(set(cells))
    if names:
        assert known is not None
        return _by_name(table, column, rows, cells, _without_ignored(order, names, port), known)
    _check_count(table, column, order, port)
    if column.kind == NUMBERS and port.allowed:
        low, high = port.allowed.low, port.allowed.high
        names_are = {"column": column.name, "low": low, "high": high, "names": list(order)}
        table.source.note("numbers-are-names", **names_are)
    return Classes(_ids(cells, order), order)


def _stay(numbers: list[int], port: Port, names: Sequence[str]) -> bool:
    """Whether all numbers may be used as they are: none is the name of another id."""
    ids, distinct = _by_text(names), set(numbers)
    return all(_is_allowed(n, port) and ids.get(str(n), n) == n for n in distinct)


def _is_allowed(number: int, port: Port) -> bool:
    if port.is_float:
        return 0 <= number < port.row_size
    allowed = port.allowed
    return allowed is None or allowed.low <= number <= allowed.high or number == allowed.ignore


def _class_names(numbers: list[int], port: Port, names: Sequence[str]) -> list[str] | None:
    """The names that are known, then `0`, `1`, … up to the largest number."""
    if not names and (port.allowed is None or port.allowed.low != 0):
        return None
    highest = max(max(numbers), 0) if port.class_count else -1
    return [*names, *(str(number) for number in range(len(names), highest + 1))]


def _note_ids(table: Table, column: Column, numbers: list[int], names: Sequence[str]) -> None:
    named = [n for n in sorted(set(numbers)) if 0 <= n < len(names) and names[n] != str(n)]
    if named:
        ids = [f"{number} is {names[number]}" for number in named]
        table.source.note("numbers-are-ids", column=column.name, ids=ids)


def _without_ignored(order: list[str], names: Sequence[str], port: Port) -> list[str]:
    """The names that are new. The number that an input ignores is no class."""
    ignored = str(port.allowed.ignore) if port.allowed else None
    return [name for name in new_names(order, names) if name != ignored]


def _by_name(
    table: Table,
    column: Column,
    rows: Sequence[int],
    cells: list[str],
    new: list[str],
    known: KnownClasses,
) -> Classes:
    if refusal := known.refusal(new):
        at = next(at for at, cell in enumerate(cells) if cell in refusal.names)
        subject = f"`{column.name}` is {quote(cells[at])}"
        line = table.lines[rows[at]]
        raise table.source.refuse(
            refusal.problem, line, column.number, subject=subject, **refusal.values
        )
    names = known.with_new(new, table.source)
    ids = _by_text(names)
    return Classes(np.array([ids[c] if c in ids else int(c) for c in cells], np.int64), names)


def _by_text(names: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


def _whole(table: Table, column: Column, row: int) -> int:
    value = column.values[row]
    assert value is not None
    if value % 1:
        cell, line = quote(column.cells[row]), table.lines[row]
        raise table.source.refuse("not-whole", line, column.number, column=column.name, cell=cell)
    return int(value)


def _check_count(table: Table, column: Column, order: list[str], port: Port) -> None:
    most = port.row_size if port.is_float else port.class_count
    if most is not None and len(order) > most:
        raise table.source.refuse(
            "class-count", column=column.name, count=len(order), classes=order, input=port.name,
            most=most,
        )  # fmt: skip


def _ids(cells: list[str], order: list[str]) -> Array:
    ids = _by_text(order)
    return np.array([ids[cell] for cell in cells], np.int64)
