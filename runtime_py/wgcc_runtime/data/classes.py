"""Cells as classes: names become ids, in an order that does not depend on the rows' order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.data.columns import NUMBERS, Column, Table
from wgcc_runtime.data.form import Port
from wgcc_runtime.data.source import listed, shown


@dataclass(frozen=True, slots=True)
class Classes:
    """The id of each row, and the names of the classes; None where numbers are just numbers."""

    ids: Array
    names: list[str] | None


def read_classes(
    table: Table, column: Column, rows: Sequence[int], port: Port, known: Sequence[str] | None
) -> Classes:
    """The ids of the given rows. `known`: the classes that the model was trained with."""
    if column.kind == NUMBERS:
        numbers = [_whole(table, column, row) for row in rows]
        if known is None and _stay(numbers, port):
            named = port.allowed is not None and port.allowed.low == 0
            highest = max(max(numbers), 0)
            names = [str(number) for number in range(highest + 1)] if named else None
            return Classes(np.array(numbers, np.int64), names)
        order = [str(number) for number in sorted(set(numbers))]
        cells = [str(number) for number in numbers]
    else:
        cells = [column.cells[row] for row in rows]
        order = sorted(set(cells))
    if known is not None:
        return Classes(_ids_of_known(table, column, rows, cells, known, port), list(known))
    _check_count(table, column, order, port)
    if column.kind == NUMBERS and port.allowed:
        low, high = port.allowed.low, port.allowed.high
        table.source.note(
            f"`{column.name}` has numbers outside {low} to {high}, so its numbers are names of "
            f"classes: {listed(order)}."
        )
    return Classes(_ids(cells, order), order)


def _stay(numbers: list[int], port: Port) -> bool:
    """Whether all numbers may be used as they are."""
    allowed = port.allowed
    if allowed is None:
        return True
    return all(allowed.low <= n <= allowed.high or n == allowed.ignore for n in numbers)


def _whole(table: Table, column: Column, row: int) -> int:
    value = column.values[row]
    assert value is not None
    if value % 1:
        text = f"`{column.name}` is {shown(column.cells[row])}, not a whole number"
        raise table.source.refuse(text, table.lines[row], column.number)
    return int(value)


def _check_count(table: Table, column: Column, order: list[str], port: Port) -> None:
    most = port.row_size if port.is_float else port.class_count
    if most is not None and len(order) > most:
        raise table.source.refuse(
            f"`{column.name}` has {len(order)} classes ({listed(order)}), but `{port.name}` has "
            f"{most}"
        )


def _ids_of_known(
    table: Table,
    column: Column,
    rows: Sequence[int],
    cells: list[str],
    known: Sequence[str],
    port: Port,
) -> Array:
    ignored = port.allowed.ignore if port.allowed else None
    ids = {name: number for number, name in enumerate(known)}
    if ignored is not None:
        ids.setdefault(str(ignored), ignored)
    for row, cell in zip(rows, cells, strict=True):
        if cell not in ids:
            text = f"`{column.name}` is {shown(cell)}, a class that the model does not know"
            text = f"{text}; it knows: {listed(known)}"
            raise table.source.refuse(text, table.lines[row], column.number)
    return np.array([ids[cell] for cell in cells], np.int64)


def _ids(cells: list[str], order: list[str]) -> Array:
    ids = {name: number for number, name in enumerate(order)}
    return np.array([ids[cell] for cell in cells], np.int64)
