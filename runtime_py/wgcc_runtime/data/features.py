"""Columns as people write them become features: columns of numbers, which a model takes.

The *source* of features says how a column is written. A preparation keeps the sources, so that
another file is read in the same way:

    {"column": "area", "unit": "m²"}                    numbers
    {"column": "port", "names": ["Cork", "Kiel", "Oslo"]}    a feature for each name, 0 or 1
    {"column": "sold", "date": "dmy", "parts": ["year", "month"]}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wgcc_runtime.data.amounts import AmountParser
from wgcc_runtime.data.columns import NAMES, NUMBERS, Column, Table
from wgcc_runtime.data.dates import (
    ORDERS,
    PARTS,
    date_orders,
    date_parts,
    is_like_today,
    varying_parts,
)
from wgcc_runtime.data.numbers import MISSING, Parser
from wgcc_runtime.data.source import Source, quote

# With more names, rows of equal names are too few to learn from.
MOST_NAMES = 32

TRUTHS = ("true", "false")

FeatureSource = dict[str, Any]


def read_amounts(table: Table, parser: Parser) -> None:
    """Columns of amounts become columns of numbers."""
    amount_parser = AmountParser(parser)
    for column in table.columns:
        if column.kind not in (NUMBERS, NAMES) or column.first_name < 0:
            continue
        amounts = amount_parser.amounts(column.cells)
        if amounts is None:
            continue
        column.kind, column.values, column.unit = NUMBERS, amounts.values, amounts.unit
        rows = enumerate(amounts.values)
        column.first_name = next(
            (row for row, value in rows if value is None and row not in column.missing), -1
        )


def find_sources(table: Table, columns: Sequence[Column]) -> list[FeatureSource]:
    """How the columns become features. Columns that nothing can be learned from are noted."""
    return [s for column in columns if (s := _source(column, table.source)) is not None]


def number_source(column: Column) -> FeatureSource:
    return {"column": column.name, **({"unit": column.unit} if column.unit else {})}


def make_features(
    table: Table, columns: Sequence[Column], sources: Sequence[FeatureSource]
) -> list[Column]:
    """The features of columns, as their sources say."""
    features: list[Column] = []
    for column, source in zip(columns, sources, strict=True):
        if "names" in source:
            features += _name_features(column, source["names"], table.source)
        elif "date" in source:
            features += _date_features(column, source, table)
        else:
            _check_unit(column, source, table)
            features.append(column)
    return features


def feature_names(source: FeatureSource) -> list[str]:
    column = source["column"]
    if "names" in source:
        return [f"{column} = {name}" for name in _told_apart(source["names"])]
    return [f"{column}: {part}" for part in source["parts"]] if "date" in source else [column]


def is_source(value: Any) -> bool:
    """Whether a stored source has the form that this module writes."""
    if not isinstance(value, dict) or not isinstance(value.get("column"), str):
        return False
    lists = [value.get("names", []), value.get("parts", [])]
    are_texts = all(isinstance(n, list) and all(isinstance(t, str) for t in n) for n in lists)
    is_date = ("date" in value) == ("parts" in value) and value.get("date", "ymd") in ORDERS
    return (
        are_texts
        and is_date
        and isinstance(value.get("unit", ""), str)
        and {*value.get("parts", [])} <= {*PARTS}
    )


def _source(column: Column, notes: Source) -> FeatureSource | None:
    present = column.present()
    if 2 * len(present) < len(column.cells):
        notes.note("column-gaps", column=column.name, count=len(column.missing))
        return None
    names = sorted(set(present))
    if len(names) == 1 and not column.missing:
        notes.note("column-constant", column=column.name, cell=quote(names[0]))
        return None
    if column.kind == NUMBERS and (column.unit is not None or not is_like_today(names)):
        return number_source(column)
    orders = date_orders(names)
    if len(orders) > 1:
        notes.note("column-dates", column=column.name, cell=quote(present[0]))
        return None
    if orders:
        dates = [parts for name in names if (parts := date_parts(name, orders[0]))]
        return {"column": column.name, "date": orders[0], "parts": varying_parts(dates)}
    if column.kind == NUMBERS:
        return number_source(column)
    if len(names) > MOST_NAMES or 2 * len(names) > len(present):
        notes.note("column-names", column=column.name, count=len(names))
        return None
    return {"column": column.name, "names": names}


def _told_apart(names: Sequence[str]) -> Sequence[str]:
    """One feature says which of two names it is."""
    return names[1:] if len(names) == 2 else names


def _name_features(column: Column, names: Sequence[str], notes: Source) -> list[Column]:
    # Frames and JSON have `true` where a CSV file may have `True`.
    truths = {name.lower(): name for name in names if name.lower() in TRUTHS}
    known = [c if c in names else truths.get(c.lower(), c) for c in column.cells]
    column = replace(column, cells=known)
    unknown = {cell for cell in column.present() if cell not in names}
    if unknown:
        notes.note("names-unknown", column=column.name, names=sorted(unknown))
    cells = ["" if cell in unknown else cell for cell in column.cells]
    missing = frozenset(row for row, cell in enumerate(cells) if cell in MISSING)
    return [
        _feature(
            replace(column, cells=cells, missing=missing),
            f"{column.name} = {name}",
            [None if row in missing else float(cell == name) for row, cell in enumerate(cells)],
        )
        for name in _told_apart(names)
    ]


def _date_features(column: Column, source: FeatureSource, table: Table) -> list[Column]:
    dates = []
    for row, cell in enumerate(column.cells):
        parts = None if row in column.missing else date_parts(cell, source["date"])
        if parts is None and row not in column.missing:
            place = table.lines[row], column.number
            raise table.source.refuse("no-date", *place, column=column.name, cell=quote(cell))
        dates.append(parts)
    features = []
    for part in source["parts"]:
        number = PARTS.index(part)
        values = [None if parts is None else float(parts[number]) for parts in dates]
        features.append(_feature(column, f"{column.name}: {part}", values))
    return features


def _feature(column: Column, name: str, values: list[float | None]) -> Column:
    return replace(column, name=name, kind=NUMBERS, values=values, first_name=-1)


def _check_unit(column: Column, source: FeatureSource, table: Table) -> None:
    known = source.get("unit", "")
    if not column.unit or column.unit == known:
        return
    row = next(row for row, cell in enumerate(column.cells) if column.unit in cell)
    place = table.lines[row], column.number
    values = {"column": column.name, "cell": quote(column.cells[row]), "unit": known}
    raise table.source.refuse("other-unit", *place, **values, plain=not known)
