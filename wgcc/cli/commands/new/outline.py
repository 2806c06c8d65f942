"""Decides what a model for a table is: what it learns, from how many numbers, and how."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wgcc_runtime.data.columns import EMPTY, INDEX, NAMES, Column, Table, make_table
from wgcc_runtime.data.encoding import decode
from wgcc_runtime.data.features import feature_names, find_sources, read_amounts
from wgcc_runtime.data.json_tables import JsonTable
from wgcc_runtime.data.matching import TARGET_NAMES
from wgcc_runtime.data.numbers import number_parser
from wgcc_runtime.data.read import TABLES, read_delimited
from wgcc_runtime.data.source import Source
from wgcc_runtime.errors import WgccError
from wgcc_runtime.regular_files import read_regular

# Whole numbers with at most so many values, each in several rows, are taken for classes.
MOST_COUNTED = 10
LEAST_ROWS = 5
# A larger share of rows with missing cells is too much to leave out.
MOST_LEFT_OUT = 0.05


@dataclass(frozen=True, slots=True)
class Outline:
    """`classes`: how many there are to tell apart; 0 for a number to learn."""

    target: str
    classes: int
    columns: int
    rows: int
    missing: str
    notes: list[str]


def outline_table(path: Path, target: str | None, task: str | None, decimal: str | None) -> Outline:
    source = Source(str(path))
    table = _read(path, source, target, decimal)
    column = _target(table, target)
    classes = _class_count(column, task, source)
    others = [c for c in table.columns if c is not column and c.kind not in (EMPTY, INDEX)]
    sources = find_sources(table, others)
    if not sources:
        raise source.refuse("no-columns-left", input="x", size=1)
    used = {s["column"] for s in sources}
    # Without an answer, a row is left out in any case.
    unanswered = column.missing
    gaps = set().union(*(c.missing for c in table.columns if c.name in used)) - unanswered
    answered = len(table.lines) - len(unanswered)
    is_many = len(gaps) > MOST_LEFT_OUT * answered
    size = sum(len(feature_names(source)) for source in sources)
    missing = "mean" if is_many else "drop"
    rows = answered - (0 if is_many else len(gaps))
    return Outline(column.name, classes, size, rows, missing, source.notes)


def _read(path: Path, source: Source, target: str | None, decimal: str | None) -> Table:
    try:
        text = decode(read_regular(path), source)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise WgccError("data", f"cannot read {path}: {reason}", source.name) from None
    content = TABLES.get(path.suffix.lower(), read_delimited)(text, source)
    if not isinstance(content, JsonTable):
        raise source.refuse("json-form")
    records = content.table
    parser = number_parser(records.records, records.delimiter, decimal, source)
    table = make_table(records.records, parser, source, {target or ""}, content.header)
    read_amounts(table, parser)
    return table


def _target(table: Table, name: str | None) -> Column:
    known = [c for c in table.columns if c.kind not in (EMPTY, INDEX)]
    if name is not None:
        chosen = [column for column in known if column.name == name]
        if not chosen:
            names = [column.name for column in known]
            raise table.source.refuse("no-column", column=name, columns=names)
        return chosen[0]
    named = [column for column in known if column.name.lower() in TARGET_NAMES]
    return named[0] if len(named) == 1 else known[-1]


def _class_count(column: Column, task: str | None, source: Source) -> int:
    present = [value for value in column.values if value is not None]
    names = set(column.present()) if column.kind == NAMES else set(map(str, present))
    if task == "regression" and column.kind == NAMES:
        cell = column.cells[column.first_name]
        raise source.refuse("names-in-target", column=column.name, cell=cell, input="y")
    is_counted = len(names) <= MOST_COUNTED and len(present) >= LEAST_ROWS * len(names)
    are_ids = is_counted and not any(value % 1 for value in present)
    is_class = task == "classes" or (task is None and (column.kind == NAMES or are_ids))
    return len(names) if is_class else 0
