"""Random files as people might have them, for comparing what both languages read from them."""

from __future__ import annotations

import json
import random
from typing import Any

NUMBERS = ("0", "1", "2", "3", "-1", "0.5", "2.25", "1e3", "12.75", "+4", ".5", "3.", "1e-3", "7")
COMMAS = ("1,5", "0,25", "12,75", "1,234", "2,500", "-3,5", "100,000", "0,125")
NAMES = (
    "u",
    "v",
    "w",
    "Oslo",
    "a b",
    "größe",
    "ü",
    "Ω",
    "𝛼",
    "true",
    "false",
    "1 000",
    "x,y",
    'q"r',
)
ODD = (
    "",
    "NA",
    "?",
    "-",
    "nan",
    "abc",
    "inf",
    " 5 ",
    "\u00a06",
    "1e400",
    "1.5",
    "None",
    "N/A",
    "0x10",
)
HEADERS = (
    "a",
    "b",
    "c",
    "x",
    "y",
    "x0",
    "x1",
    "x.0",
    "label",
    "Class",
    "id",
    "Index",
    "",
    "price",
    "size m",
)
DELIMITERS = (",", ";", "\t", "|")
ENDS = ("\n", "\r\n", "\r")
# Number columns and target that each takes.
MODELS = {
    "class3": (2, "names"),
    "price": (3, "numbers"),
    "onehot3": (2, "names"),
    "batch8": (2, "few"),
}
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {}, {"scale": True}, {"missing": "mean"}, {"decimal": ","}, {"decimal": "."},
    {"target": "a"}, {"columns": ["a", "b"]}, {"target": "label", "scale": True},
    {"columns": {"x": ["a", "c"], "y": ["b"]}}, {"entry": "predict"},
)  # fmt: skip


def random_case(seed: int) -> tuple[str, bytes, str, dict[str, Any]]:
    """Name, content, model and options of a file; about half of them can be read."""
    draw = random.Random(seed)
    model = draw.choice(list(MODELS))
    options = draw.choice(OPTIONS) if draw.random() < 0.6 else {}
    if draw.random() < 0.15:
        text = _json(draw, model)
        return f"case{seed}.json", text.encode(), model, options
    text = _table(draw, model)
    encoding = draw.choice(("utf-8",) * 6 + ("utf-8-sig", "utf-16", "cp1252"))
    return f"case{seed}.csv", text.encode(encoding, errors="replace"), model, options


def _table(draw: random.Random, model: str) -> str:
    delimiter, end = draw.choice(DELIMITERS), draw.choice(ENDS)
    kinds = _kinds(draw, model)
    odd = draw.choice((0.0, 0.0, 0.01, 0.05))
    rows = draw.choice((2, 3, 8, 9, 12, 30))
    records = [[_cell(draw, kind, row, odd) for kind in kinds] for row in range(rows)]
    if draw.random() < 0.8:
        records.insert(0, _header(draw, kinds))
    lines = [delimiter.join(_quoted(draw, cell, delimiter, end) for cell in r) for r in records]
    if draw.random() < 0.1:
        lines[draw.randrange(len(lines))] += draw.choice((delimiter, '"', f"{delimiter}7", "", " "))
    if draw.random() < 0.1:
        lines.insert(draw.randrange(len(lines) + 1), draw.choice(("", "  ", "sep=;")))
    return end.join(lines) + (end if draw.random() < 0.8 else "")


def _kinds(draw: random.Random, model: str) -> list[str]:
    """Of the columns; most tables have those that the model takes."""
    count, target = MODELS[model]
    count += draw.choice((0, 0, 0, 0, 0, 0, 1, -1))
    number = draw.choice(("numbers", "numbers", "commas", "whole"))
    kinds = [number if draw.random() < 0.9 else "few" for _ in range(count)]
    target = number if target == "numbers" else draw.choice((target, target, "few", "labels"))
    kinds.insert(draw.choice((0, count, count)), target)
    if draw.random() < 0.15:
        kinds.insert(0, "count")
    if draw.random() < 0.1:
        kinds.insert(draw.randrange(len(kinds)), "empty")
    return kinds


def _header(draw: random.Random, kinds: list[str]) -> list[str]:
    if draw.random() < 0.7:
        names = [*"abcdefgh"[: len(kinds) - 1], "label"]
        return ["id", *names[1:]] if kinds[0] == "count" else names
    return [draw.choice(HEADERS) for _ in kinds]


def _cell(draw: random.Random, kind: str, row: int, odd: float) -> str:
    if draw.random() < odd:
        return draw.choice(ODD)
    if kind == "count":
        return str(row + 5)
    choices = {"numbers": NUMBERS, "commas": COMMAS, "names": NAMES[: 3 if row % 9 else 4]}
    choices |= {"few": ("0", "1", "2"), "empty": ("", "NA"), "labels": ("1", "2", "3")}
    choices |= {"whole": ("10", "20", "35", "-4")}
    return draw.choice(choices[kind])


def _quoted(draw: random.Random, cell: str, delimiter: str, end: str) -> str:
    if delimiter in cell or '"' in cell or draw.random() < 0.05:
        inside = cell.replace('"', '""')
        more = end if draw.random() < 0.1 else ""
        return f'"{inside}{more}"'
    return cell


def _json(draw: random.Random, model: str) -> str:
    kinds = _kinds(draw, model)
    names = [*"abcdefgh"[: len(kinds) - 1], "label"]
    rows = [[_value(draw, kind) for kind in kinds] for _ in range(draw.choice((1, 2, 3, 9)))]
    form = draw.choice(("objects", "lists", "columns", "arrays", "broken"))
    if form == "objects":
        return json.dumps([dict(zip(names, row, strict=True)) for row in rows])
    if form == "columns":
        return json.dumps({n: list(c) for n, c in zip(names, zip(*rows, strict=True), strict=True)})
    if form == "arrays":
        return json.dumps({"x": [[1, 2], [3, 4.5]], "y": [0, draw.choice((1, 2, 5))], "lr": [1]})
    text = json.dumps([names, *rows], indent=draw.choice((None, 1)))
    if form == "lists":
        return text
    at = draw.randrange(len(text))
    return text[:at] + draw.choice(("", ",", "]", "}", '"', "\n\n", "1", "nul")) + text[at + 1 :]


def _value(draw: random.Random, kind: str) -> Any:
    if draw.random() < 0.02:
        return draw.choice((None, True, "abc", [1]))
    if kind in ("few", "labels", "count"):
        return draw.choice((0, 1, 2))
    if kind in ("numbers", "whole"):
        return draw.choice((0, 1, 2, 2.5, -1.25, 3.0, 1e21, "7"))
    return draw.choice(("u", "v", "ü") if kind == "names" else ("1,5", "2,25"))
