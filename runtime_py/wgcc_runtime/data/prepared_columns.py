"""Columns for a model that was trained already: those of its preparation, by their names."""

from __future__ import annotations

from wgcc_runtime.data.columns import EMPTY, NAMES, Column, Table
from wgcc_runtime.data.form import EntryForm
from wgcc_runtime.data.matching import Matching
from wgcc_runtime.data.options import Options
from wgcc_runtime.data.source import listed, shown


def find_prepared(table: Table, entry: EntryForm, options: Options) -> Matching:
    """The columns that the preparation names; in a table without header, by their order."""
    preparation = options.preparation
    assert preparation is not None
    target = preparation["target"]
    found = Matching(target if target in entry.rows else None)
    for name in entry.rows:
        spec = preparation["inputs"].get(name)
        if spec is None or "columns" not in spec:
            text = f"the model was not trained with a table, so `{name}` cannot be read from one"
            raise table.source.refuse(text)
        found.columns[name] = _columns(table, entry, spec["columns"])
        if spec["kind"] == "columns":
            _check_numbers(table, name, found.columns[name])
    return found


def _columns(table: Table, entry: EntryForm, names: list[str]) -> list[Column]:
    there = {column.name: column for column in table.columns}
    if not table.has_header and len(entry.rows) == 1 and len(there) == len(names):
        return list(table.columns)
    for name in names:
        if name not in there or there[name].kind == EMPTY:
            text = f"there is no column `{name}`, which the model was trained with"
            raise table.source.refuse(f"{text}; there are: {listed(there)}")
    return [there[name] for name in names]


def _check_numbers(table: Table, name: str, columns: list[Column]) -> None:
    for column in columns:
        if column.kind == NAMES:
            row = column.first_name
            cell = shown(column.cells[row])
            text = f"`{column.name}` holds names ({cell}), but `{name}` takes numbers"
            raise table.source.refuse(text, table.lines[row], column.number)
