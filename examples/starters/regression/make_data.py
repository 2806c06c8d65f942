"""Makes flats.csv and new.csv: flats that nobody can rent, with prices from a formula and noise.

The files are in the repository already; this script shows where they come from.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
COUNT, NEW = 300, 3
HEADER = ("rooms", "area", "floor", "age", "price")


def main() -> None:
    rows = flats(np.random.default_rng(1), COUNT + NEW)
    write("flats.csv", HEADER, rows[:COUNT])
    write("new.csv", HEADER[:-1], [row[:-1] for row in rows[COUNT:]])


def flats(draw: np.random.Generator, count: int) -> list[tuple[int, ...]]:
    rooms = draw.integers(1, 7, count)
    area = 14 + 17 * rooms + draw.normal(0, 8, count)
    floor, age = draw.integers(0, 9, count), draw.integers(0, 100, count)
    # Old flats lose less for each year than new ones.
    price = (2400 * area + 5000 * rooms + 2500 * floor) * (0.6 + 0.4 * np.exp(-age / 30))
    price += draw.normal(0, 8000, count)
    columns = (rooms, area.round(), floor, age, (price / 100).round() * 100)
    return [tuple(int(value) for value in row) for row in zip(*columns, strict=True)]


def write(name: str, header: tuple[str, ...], rows: list[tuple[int, ...]]) -> None:
    with open(FOLDER / name, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    main()
