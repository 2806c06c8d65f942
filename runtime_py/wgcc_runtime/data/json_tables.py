"""JSON as a table: a list of objects, a list of lists, an object of lists; or as arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.data.csv_records import Delimited, Record
from wgcc_runtime.data.json_place import broken_at
from wgcc_runtime.data.source import BLANKS, Source


@dataclass(frozen=True, slots=True)
class JsonTable:
    """`header`: whether the first record is one; None where the rules of tables decide."""

    table: Delimited
    header: bool | None


def read_json(text: str, source: Source) -> JsonTable | dict[str, Array]:
    value = _parse(text, source)
    source.unit = "row"
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return _objects(value, source)
    if isinstance(value, list) and value and all(isinstance(item, list) for item in value):
        return _lists(value, source)
    if isinstance(value, dict) and value and all(isinstance(v, list) for v in value.values()):
        nested = any(isinstance(item, list) for items in value.values() for item in items)
        return _arrays(value, source) if nested else _columns(value, source)
    if value in ([], {}):
        raise source.refuse("empty-file")
    raise source.refuse("json-form")


def _parse(text: str, source: Source) -> Any:
    try:
        # Numbers stay as they are written: `1` and `1.0` are cells like those of a CSV file.
        return json.loads(text, parse_float=_Number, parse_int=_Number, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        line, column = broken_at(text)
        raise source.refuse("json-syntax", line, column) from None


class _Number(str):
    """The text of a number."""


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _objects(items: list[dict[str, Any]], source: Source) -> JsonTable:
    names = list(dict.fromkeys(name for item in items for name in item))
    records = [Record(0, [name.strip(BLANKS) for name in names])]
    for row, item in enumerate(items, 1):
        cells = [_cell(item.get(name), row, at, source) for at, name in enumerate(names, 1)]
        records.append(Record(row, cells))
    return JsonTable(Delimited(records, ""), header=True)


def _lists(items: list[list[Any]], source: Source) -> JsonTable:
    width = len(items[0])
    records = []
    for row, item in enumerate(items, 1):
        cells = [_cell(value, row, at, source) for at, value in enumerate(item, 1)]
        if len(cells) != width:
            raise source.refuse("field-count", row, count=len(cells), unit="row", width=width)
        records.append(Record(row, cells))
    if not width:
        raise source.refuse("empty-file")
    return JsonTable(Delimited(records, ""), header=None)


def _columns(value: dict[str, list[Any]], source: Source) -> JsonTable:
    (first, items), *others = value.items()
    for name, other in others:
        if len(other) != len(items):
            counts = {"count": len(items), "length": len(other)}
            raise source.refuse("json-lengths", column=first, other=name, **counts)
    records = [Record(0, [name.strip(BLANKS) for name in value])]
    for row in range(len(items)):
        cells = [_cell(v[row], row + 1, at, source) for at, v in enumerate(value.values(), 1)]
        records.append(Record(row + 1, cells))
    return JsonTable(Delimited(records, ""), header=True)


def _cell(value: Any, row: int, column: int, source: Source) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value.strip(BLANKS)
    raise source.refuse("json-nested", row, column)


def _arrays(value: dict[str, list[Any]], source: Source) -> dict[str, Array]:
    arrays = {}
    for name, items in value.items():
        try:
            numbers = _numbers(items)
            arrays[name] = np.array(numbers)
        except ValueError:
            raise source.refuse("json-array", input=name) from None
    return arrays


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    if not isinstance(value, _Number):
        raise ValueError(value)
    return float(value) if set(value) & set(".eE") else int(value)
