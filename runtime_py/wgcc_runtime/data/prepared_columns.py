"""Columns for a model that was trained already: those of its preparation, by their names."""

from __future__ import annotations

from wgcc_runtime.data.columns import NAMES, Column, Table
from wgcc_runtime.data.features import FeatureSource, make_features
from wgcc_runtime.data.form import EntryForm
from wgcc_runtime.data.matching import Matching
from wgcc_runtime.data.options import Options
from wgcc_runtime.data.source import quote


def find_prepared(table: Table, entry: EntryForm, options: Options) -> Matching:
    """The columns that the preparation names; in a table without header, by their order."""
    preparation = options.preparation
    assert preparation is not None
    target = preparation["target"]
    matching = Matching(target if target in entry.rows else None)
    for name in entry.rows:
        spec = preparation["inputs"].get(name)
        if spec is None or "columns" not in spec:
            raise table.source.refuse("no-table", input=name)
        if "sources" in spec:
            matching.columns[name] = _features(table, entry, name, spec["sources"])
            continue
        matching.columns[name] = _columns(table, entry, spec["columns"])
        if spec["kind"] == "columns":
            _check_numbers(table, name, matching.columns[name])
    return matching


def _features(
    table: Table, entry: EntryForm, name: str, sources: list[FeatureSource]
) -> list[Column]:
    columns = _columns(table, entry, [source["column"] for source in sources])
    numbers = [c for c, s in zip(columns, sources, strict=True) if not {"names", "date"} & s.keys()]
    _check_numbers(table, name, numbers)
    return make_features(table, columns, sources)


def _columns(table: Table, entry: EntryForm, names: list[str]) -> list[Column]:
    there = {column.name: column for column in table.columns}
    if not table.has_header and len(entry.rows) == 1 and len(there) == len(names):
        return list(table.columns)
    for name in names:
        if name not in there:
            raise table.source.refuse("no-trained-column", column=name, columns=list(there))
    return [there[name] for name in names]


def _check_numbers(table: Table, name: str, columns: list[Column]) -> None:
    for column in columns:
        if column.kind == NAMES:
            row = column.first_name
            cell = quote(column.cells[row])
            values = {"column": column.name, "cell": cell, "input": name}
            raise table.source.refuse("names", table.lines[row], column.number, **values)
