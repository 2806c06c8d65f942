"""Dates as people write them, as numbers: year, month, day, day of the week and hour."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date

_TIME = r"(?:[T ]([0-9]{1,2}):([0-9]{2})(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
_YEAR_FIRST = re.compile(r"([0-9]{4})([-/.]?)([0-9]{1,2})\2([0-9]{1,2})" + _TIME)
_YEAR_LAST = re.compile(r"([0-9]{1,2})([-/.])([0-9]{1,2})\2([0-9]{4})" + _TIME)
# The places of year, month and day in the three numbers of a date, by their order.
_PLACES = {"ymd": (0, 1, 2), "dmy": (2, 1, 0), "mdy": (2, 0, 1)}
ORDERS = tuple(_PLACES)
# What may be read from a date; the day of the week is 1 on Mondays.
PARTS = ("year", "month", "day", "weekday", "hour")

Parts = tuple[float, ...]


def date_parts(cell: str, order: str) -> Parts | None:
    """The numbers of `PARTS`; None if the cell is no date in this order."""
    match = (_YEAR_FIRST if order == "ymd" else _YEAR_LAST).fullmatch(cell)
    if not match or (not match[2] and len(cell) != 8):
        return None
    numbers = [int(match[group]) for group in (1, 3, 4)]
    year, month, day = (numbers[place] for place in _PLACES[order])
    hour = int(match[5] or 0) + int(match[6] or 0) / 60
    try:
        weekday = date(year, month, day).isoweekday()
    except ValueError:
        return None
    return (year, month, day, weekday, hour) if hour <= 24 else None


def date_orders(cells: Iterable[str]) -> list[str]:
    """The orders in which all cells are dates; with points between, the day comes first."""
    distinct = set(cells)
    orders = [o for o in ORDERS if all(date_parts(cell, o) is not None for cell in distinct)]
    if "mdy" in orders and any("." in cell.split(" ")[0].split("T")[0] for cell in distinct):
        orders.remove("mdy")
    return orders


def is_like_today(cells: Iterable[str]) -> bool:
    """Whether numbers of eight digits are dates: other numbers rarely begin with such years."""
    return all(len(cell) == 8 and "1900" <= cell[:4] <= "2100" for cell in cells)


def varying_parts(dates: Sequence[Parts]) -> list[str]:
    """The parts that are not the same in all dates: nothing can be learned from the others."""
    return [part for part, values in zip(PARTS, zip(*dates, strict=True), strict=True)
            if len(set(values)) > 1]  # fmt: skip
