"""A table as arrays for the inputs of an entry: matching, missing cells, classes, scaling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wgcc_runtime.arrays import CALLER_TYPES, Array
from wgcc_runtime.data.classes import read_classes
from wgcc_runtime.data.columns import NUMBERS, Column, Table, make_table
from wgcc_runtime.data.csv_records import Delimited
from wgcc_runtime.data.doubts import note_doubts
from wgcc_runtime.data.features import read_amounts
from wgcc_runtime.data.form import EntryForm, ModelForm, Port
from wgcc_runtime.data.known_classes import KnownClasses, known_in, with_classes
from wgcc_runtime.data.matching import Matching, is_one_hot, match_columns
from wgcc_runtime.data.numbers import number_parser
from wgcc_runtime.data.options import Options
from wgcc_runtime.data.preparation import (
    Data,
    Preparation,
    deviation_of,
    mean_of,
    needs_scaling,
    scale,
)
from wgcc_runtime.data.prepared_columns import find_prepared
from wgcc_runtime.data.rows_left import check_rows, other_inputs
from wgcc_runtime.data.source import Source, quote

COLUMNS, CLASSES, ONE_HOT = "columns", "classes", "one hot"


def read_table(
    delimited: Delimited,
    source: Source,
    form: ModelForm,
    entry: EntryForm,
    options: Options,
    header: bool | None = None,
) -> Data:
    """Reads records for an entry. `header`: whether the first record is one, if that is known."""
    others = other_inputs(entry, options.values, source)
    parse = number_parser(delimited.records, delimited.delimiter, options.decimal, source)
    prepared = options.preparation["inputs"].values() if options.preparation else ()
    wanted = {*options.column_names(), *entry.inputs, *_prepared_names(prepared)}
    table = make_table(delimited.records, parse, source, wanted, header)
    if options.encode or any("sources" in spec for spec in prepared):
        read_amounts(table, parse)
    if options.preparation:
        matching = find_prepared(table, entry, options)
    else:
        matching = match_columns(table, entry, form.target(entry), options)
    return _Reading(table, entry, matching, options, form.classes).data(others)


def _prepared_names(specs: Iterable[Mapping[str, Any]]) -> set[str]:
    names = {name for spec in specs for name in spec.get("columns", ())}
    return names | {s["column"] for spec in specs for s in spec.get("sources", ())}


class _Reading:
    """The steps from matched columns to arrays."""

    def __init__(
        self,
        table: Table,
        entry: EntryForm,
        matching: Matching,
        options: Options,
        classes: Mapping[str, Sequence[str]],
    ) -> None:
        self._table, self._entry, self._classes = table, entry, classes
        self._matching, self._options = matching, options
        self._source = table.source
        self._kinds = {name: self._kind(name) for name in matching.columns}
        self._needs: list[Column] = []
        self._filled: set[int] = set()

    def data(self, others: dict[str, Array]) -> Data:
        self._refuse_odd_cells()
        rows, dropped = self._kept_rows()
        check_rows(self._source, self._entry, len(rows), dropped)
        specs, arrays = {}, {}
        for name in self._entry.rows:
            specs[name], arrays[name] = self._input(name, rows)
        if self._entry.training and not self._options.preparation:
            note_doubts(self._source, self._matching, specs, arrays, rows)
        return Data(
            arrays={**arrays, **others},
            preparation=self._preparation(specs),
            rows=len(rows),
            with_rows=tuple(arrays),
            notes=self._source.notes,
            dropped=dropped,
            columns=self._describe_columns(),
            needs_scaling=[c.name for c in sorted(self._needs, key=lambda c: c.number)],
            own_scaling=self._options.scale and not self._options.preparation,
        )

    def _preparation(self, specs: dict[str, dict[str, Any]]) -> Preparation:
        if self._options.preparation:
            return with_classes(self._options.preparation, specs)
        return {
            "version": 1,
            "inputs": specs,
            "target": self._matching.target,
            "missing": self._options.missing,
        }

    def _kind(self, name: str) -> str:
        known = self._known_spec(name)
        if known is not None:
            return str(known["kind"])
        port, columns = self._entry.inputs[name], self._matching.columns[name]
        if port.takes_classes:
            return CLASSES
        return ONE_HOT if len(columns) == 1 and is_one_hot(columns[0], port) else COLUMNS

    def _known_spec(self, name: str) -> dict[str, Any] | None:
        """The spec of an input in the preparation that was given, if there is one."""
        if not self._options.preparation:
            return None
        spec: dict[str, Any] | None = self._options.preparation["inputs"].get(name)
        return spec

    def _known_classes(self, name: str) -> KnownClasses | None:
        """The classes of the preparation that was given, else those that the model knows."""
        names = (self._known_spec(name) or {}).get("classes", self._classes.get(name))
        return names and known_in(names, self._entry.inputs[name], self._entry.training)

    def _refuse_odd_cells(self) -> None:
        used = [column for column in self._matching.used_columns() if column.kind == NUMBERS]
        odd = [column for column in used if column.first_name >= 0]
        if odd:
            column = min(odd, key=lambda column: (column.first_name, column.number))
            cell = quote(column.cells[column.first_name])
            place = self._table.lines[column.first_name], column.number
            raise self._source.refuse("odd-cell", *place, column=column.name, cell=cell)

    def _kept_rows(self) -> tuple[list[int], list[dict[str, Any]]]:
        filled = self._filled_columns()
        needed = [c for c in self._matching.used_columns() if c.number not in filled and c.missing]
        rows: list[int] = []
        dropped: dict[str, dict[str, Any]] = {}
        for row, line in enumerate(self._table.lines):
            missing = next((column for column in needed if row in column.missing), None)
            if missing is None:
                rows.append(row)
                continue
            reason = f"no value in `{self._raw_name(missing)}`"
            group = dropped.setdefault(reason, {"reason": reason, "count": 0, "first": line})
            group["count"] += 1
        return rows, list(dropped.values())

    def _raw_name(self, column: Column) -> str:
        """The name in the file, also of features."""
        return self._table.columns[column.number - 1].name

    def _filled_columns(self) -> set[int]:
        """Numbers of the columns whose missing cells become the mean; nothing is learned from an
        answer that nobody gave."""
        if self._options.missing != "mean":
            return set()
        return {
            column.number
            for name, columns in self._matching.columns.items()
            if self._entry.inputs[name].is_float and self._kinds[name] == COLUMNS
            if name != self._matching.target
            for column in columns
        }

    def _input(self, name: str, rows: Sequence[int]) -> tuple[dict[str, Any], Array]:
        columns, port = self._matching.columns[name], self._entry.inputs[name]
        kind = self._kinds[name]
        spec: dict[str, Any] = {"kind": kind, "columns": [column.name for column in columns]}
        if name in self._matching.sources:
            spec["sources"] = self._matching.sources[name]
        shape = (len(rows), *port.row_shape)
        if kind == COLUMNS:
            more, numbers = self._numbers(name, columns, rows, port)
            return {**spec, **more}, numbers.reshape(shape)
        classes = read_classes(self._table, columns[0], rows, port, self._known_classes(name))
        if classes.names is None:
            return {**spec, "kind": COLUMNS}, _integers(classes.ids, port).reshape(shape)
        spec["classes"] = classes.names
        if kind == ONE_HOT:
            return spec, np.eye(port.row_size, dtype=np.float32)[classes.ids]
        return spec, _integers(classes.ids, port).reshape(shape)

    def _numbers(
        self, name: str, columns: list[Column], rows: Sequence[int], port: Port
    ) -> tuple[dict[str, Any], Array]:
        if not port.is_float:
            whole = [read_classes(self._table, c, rows, _plain(port), None).ids for c in columns]
            return {}, _integers(np.stack(whole, axis=1), port)
        known = self._known_spec(name)
        means = (known or {}).get("mean", [None] * len(columns))
        filled = [self._filled_column(c, rows, m) for c, m in zip(columns, means, strict=True)]
        values = np.stack(filled, axis=1)
        if known is not None:
            # Entries that do not train get raw numbers: calling them scales.
            if not self._entry.training or "mean" not in known:
                return {}, values if not self._entry.training else _floats(values, port)
            return {}, _floats(scale(values, np.array(means), np.array(known["deviation"])), port)
        self._needs += [c for c, v in zip(columns, values.T, strict=True) if needs_scaling(v)]
        if not self._options.scale:
            return {}, _floats(values, port)
        mean = [mean_of(column) for column in values.T]
        deviation = [deviation_of(v, m) for v, m in zip(values.T, mean, strict=True)]
        numbers = scale(values, np.array(mean), np.array(deviation))
        return {"mean": mean, "deviation": deviation}, _floats(numbers, port)

    def _filled_column(self, column: Column, rows: Sequence[int], mean: float | None) -> Array:
        """`mean` is that of the preparation, or of the rows themselves."""
        values = [column.values[row] for row in rows]
        present = np.array([value for value in values if value is not None], np.float64)
        missing = len(values) - len(present)
        if not missing:
            return present
        if mean is None and not len(present):
            raise self._source.refuse("no-values-left", column=column.name)
        mean = mean_of(present) if mean is None else mean
        if column.number not in self._filled:  # Features of one column miss the same cells.
            self._source.note("cells-filled", count=missing, column=self._raw_name(column))
        self._filled.add(column.number)
        return np.array([mean if value is None else value for value in values])

    def _describe_columns(self) -> list[dict[str, Any]]:
        inputs = {c.number: name for name, some in self._matching.columns.items() for c in some}
        return [
            {"name": c.name, "kind": c.kind, "input": inputs.get(c.number)}
            for c in self._table.columns
        ]


def _plain(port: Port) -> Port:
    """The port without its range, which `fit` checks."""
    return Port(port.name, port.dtype, port.shape)


def _integers(values: Array, port: Port) -> Array:
    return np.asarray(values, np.bool_ if port.dtype == "bool" else np.int32)


def _floats(values: Array, port: Port) -> Array:
    return values.astype(CALLER_TYPES[port.dtype])
