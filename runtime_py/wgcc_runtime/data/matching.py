"""Decides which columns of a table feed which input of an entry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wgcc_runtime.data.columns import EMPTY, INDEX, NAMES, NUMBERS, Column, Table
from wgcc_runtime.data.features import FeatureSource, find_sources, make_features, number_source
from wgcc_runtime.data.form import EntryForm, Port
from wgcc_runtime.data.options import Options
from wgcc_runtime.data.source import quote
from wgcc_runtime.strict_json import table

TARGET_NAMES = frozenset(table("data_words")["target"])


@dataclass(slots=True)
class Matching:
    """Columns by input, and the input that is the target, if the entry has one.

    `sources`: of the inputs whose columns are features of others.
    """

    target: str | None
    columns: dict[str, list[Column]] = field(default_factory=dict)
    sources: dict[str, list[FeatureSource]] = field(default_factory=dict)

    def used_columns(self) -> list[Column]:
        """The columns that inputs use, in file order."""
        by_number = {column.number: column for some in self.columns.values() for column in some}
        return [by_number[number] for number in sorted(by_number)]


def match_columns(table: Table, entry: EntryForm, target: str | None, options: Options) -> Matching:
    """Assigns columns by the options, then by names of inputs, the target, and the rest."""
    matcher = _Matcher(table, entry, target, options)
    matcher.by_options()
    matcher.by_name()
    matcher.by_target()
    matcher.the_rest()
    matcher.note_unused()
    return matcher.matching


class _Matcher:
    def __init__(
        self, table: Table, entry: EntryForm, target: str | None, options: Options
    ) -> None:
        self._table, self._entry, self._options = table, entry, options
        self._source = table.source
        self._left = [c for c in table.columns if c.kind not in (EMPTY, INDEX)]
        self.matching = Matching(target if target in entry.rows else None)

    def by_options(self) -> None:
        target, columns = self.matching.target, self._options.columns
        if self._options.target is not None:
            if target is None:
                raise self._source.refuse("no-target", entry=self._entry.name)
            self._assign(target, [self._find_column(self._options.target)])
        if isinstance(columns, Mapping):
            for name, names in columns.items():
                if name not in self._entry.rows:
                    inputs = {"input": name, "inputs": list(self._entry.rows)}
                    raise self._source.refuse("no-row-input", entry=self._entry.name, **inputs)
                self._assign(name, [self._find_column(column) for column in names])
        elif columns is not None:
            chosen = [self._find_column(column) for column in columns]
            self._assign(self._one_left([n for n in self._open() if n != target]), chosen)

    def by_name(self) -> None:
        for name in self._open():
            port = self._entry.inputs[name]
            columns = self._columns_for(name)
            if columns and _fill(columns, port):
                self._assign(name, columns)

    def by_target(self) -> None:
        target = self.matching.target
        if target is None or target in self.matching.columns or not self._left:
            return
        port = self._entry.inputs[target]
        called = {*TARGET_NAMES, target.lower()}
        named = [column for column in self._left if column.name.lower() in called]
        if len(named) == 1 and _fill(named, port):
            self._assign(target, named)
            return
        columns, where = self._by_place(port)
        names = [f"`{column.name}`" for column in columns]
        self._source.note("target-taken", input=target, where=where, columns=names)
        self._assign(target, columns)

    def the_rest(self) -> None:
        if not self._open():
            return
        name = self._one_left(self._open())
        port, raw = self._entry.inputs[name], list(self._left)
        columns = self._features(name, raw)
        if _fill(columns, port):
            self._put(name, raw, columns)
            return
        self._check_numbers(name, columns)
        if not columns:
            raise self._source.refuse("no-columns-left", input=name, size=port.row_size)
        raise self._source.refuse(
            "columns-left", size=port.row_size, **_column_facts(name, columns)
        )

    def note_unused(self) -> None:
        if self._left:
            names = [f"`{column.name}`" for column in self._left]
            self._source.note("columns-unused", columns=names)

    def _open(self) -> list[str]:
        """Inputs that have no columns yet."""
        return [name for name in self._entry.rows if name not in self.matching.columns]

    def _assign(self, name: str, columns: list[Column]) -> None:
        self._refuse_twice(columns)
        raw, columns = columns, self._features(name, columns)
        self._put(name, raw, columns)
        port = self._entry.inputs[name]
        if _fill(columns, port):
            return
        self._check_numbers(name, columns)
        raise self._source.refuse(
            "column-count", size=port.row_size, **_column_facts(name, columns)
        )

    def _put(self, name: str, raw: list[Column], columns: list[Column]) -> None:
        self.matching.columns[name] = columns
        self._left = [column for column in self._left if column not in raw]

    def _features(self, name: str, columns: list[Column]) -> list[Column]:
        """The columns that an input takes; with `encode` these are features of the file's."""
        port = self._entry.inputs[name]
        is_class = len(columns) == 1 and is_one_hot(columns[0], port)
        if not self._options.encode or not port.is_float or is_class:
            return columns
        if name == self.matching.target:
            sources = [number_source(column) for column in columns]
        else:
            sources = find_sources(self._table, columns)
            kept = {source["column"] for source in sources}
            columns = [column for column in columns if column.name in kept]
            columns = make_features(self._table, columns, sources)
        self.matching.sources[name] = sources
        return columns

    def _refuse_twice(self, columns: list[Column]) -> None:
        """A model that is given what it shall predict learns nothing."""
        used = {column.number for column in self.matching.used_columns()}
        for column in columns:
            if column.number in used:
                raise self._source.refuse("column-twice", column=column.name)
            used.add(column.number)

    def _check_numbers(self, name: str, columns: list[Column]) -> None:
        """Refuses names where the input takes numbers."""
        port = self._entry.inputs[name]
        odd = next((column for column in columns if column.kind == NAMES), None)
        if odd is None or port.takes_classes:
            return
        if (
            len(columns) == 1
            and name == self.matching.target
            and port.is_float
            and port.row_size > 1
        ):
            self._refuse_classes(odd, name, port.row_size)
        row = odd.first_name
        others = [column.name for column in columns if column.kind == NUMBERS]
        values = {"column": odd.name, "cell": quote(odd.cells[row]), "input": name}
        if name == self.matching.target:
            raise self._source.refuse(
                "names-in-target", self._table.lines[row], odd.number, **values
            )
        raise self._source.refuse(
            "names-in-columns", self._table.lines[row], odd.number, numbers=others, **values
        )

    def _refuse_classes(self, column: Column, name: str, count: int) -> None:
        classes = sorted(set(column.present()))
        values = {"count": len(classes), "classes": classes, "input": name, "most": count}
        raise self._source.refuse("class-count", column=column.name, **values)

    def _by_place(self, port: Port) -> tuple[list[Column], str]:
        """The first or last column, whichever alone fits; else the last ones."""
        first, last = self._left[0], self._left[-1]
        fitting = [column for column in (first, last) if _fits_classes(column, port)]
        if len(fitting) == 2 and first is not last:
            names = [column.name for column in self._left]
            raise self._source.refuse("which-target", input=port.name, columns=names)
        if fitting:
            return fitting[:1], "first column" if fitting[0] is not last else "last column"
        columns = self._left[-port.row_size :] if port.is_float else [last]
        return columns, "last column" if len(columns) == 1 else "last columns"

    def _find_column(self, name: str) -> Column:
        for column in self._table.columns:
            if column.name == name:
                if column.kind == EMPTY:
                    raise self._source.refuse("no-values", column=name)
                return column
        known = [column.name for column in self._table.columns]
        raise self._source.refuse("no-column", column=name, columns=known)

    def _columns_for(self, name: str) -> list[Column]:
        """The column `x`, or `x0`, `x1`, … by their numbers (also x.0, x_0, x[0])."""
        exact = [column for column in self._left if column.name == name]
        if exact:
            return exact
        pattern = re.compile(rf"{re.escape(name)}(?:[._]?([0-9]+)|\[([0-9]+)\])")
        numbered = [
            (int(match[1] or match[2]), column)
            for column in self._left
            if (match := pattern.fullmatch(column.name))
        ]
        return [column for _, column in sorted(numbered, key=lambda item: item[0])]

    def _one_left(self, names: Sequence[str]) -> str:
        if len(names) == 1:
            return names[0]
        if not names:
            raise self._source.refuse("no-input-left")
        inputs = [f"`{name}`" for name in names]
        columns = [column.name for column in self._left]
        raise self._source.refuse("which-columns", inputs=inputs, columns=columns)


def _fill(columns: list[Column], port: Port) -> bool:
    """Whether the columns hold what a row of the input takes."""
    if len(columns) == 1 and is_one_hot(columns[0], port):
        return True
    if len(columns) != port.row_size:
        return False
    return port.takes_classes or all(column.kind != NAMES for column in columns)


def is_one_hot(column: Column, port: Port) -> bool:
    """A column of C names for a float input with rows of C numbers."""
    if not port.is_float or column.kind != NAMES or len(port.row_shape) != 1:
        return False
    return port.row_size > 1 and len(set(column.present())) == port.row_size


def _column_facts(name: str, columns: list[Column]) -> dict[str, Any]:
    """The facts about the columns for an input that errors name."""
    names = [column.name for column in columns]
    return {"input": name, "count": len(names), "columns": names}


def _fits_classes(column: Column, port: Port) -> bool:
    if port.is_float:
        return is_one_hot(column, port)
    if not port.takes_classes:
        return False
    most = port.class_count
    if column.kind == NAMES:
        return most is None or len(set(column.present())) <= most
    values = [value for value in column.values if value is not None]
    if any(value % 1 for value in values):
        return False
    different = len(set(values))
    inside = port.allowed is not None and all(_is_within(value, port) for value in values)
    return (most is None or different <= most) and (inside or different < len(values))


def _is_within(value: float, port: Port) -> bool:
    assert port.allowed is not None
    return port.allowed.low <= value <= port.allowed.high or value == port.allowed.ignore
