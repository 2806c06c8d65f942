"""Six tables that people know, as files have them, and how models of them are judged.

Four come with scikit-learn. Of `penguins` and `titanic`, the columns, the shares of their names and
the means and deviations of their numbers are those of the originals; rows are drawn.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

FOLDS = 3
TARGETS = {
    "iris": "target",
    "wine": "target",
    "breast_cancer": "target",
    "diabetes": "target",
    "penguins": "species",
    "titanic": "survived",
}


def rows_of(name: str) -> list[list[str]]:
    """The header, then the rows, in an order that says nothing."""
    if name in ("penguins", "titanic"):
        header, *rows = (_penguins if name == "penguins" else _titanic)()
    else:
        header, *rows = _of_scikit_learn(name)
    order = np.random.default_rng(0).permutation(len(rows))
    return [header, *(rows[place] for place in order)]


def folds(name: str, folder: Path) -> Iterator[tuple[Path, Path]]:
    """Files to train with, and to judge with."""
    header, *rows = rows_of(name)
    for fold in range(FOLDS):
        held = [row for place, row in enumerate(rows) if place % FOLDS == fold]
        rest = [row for place, row in enumerate(rows) if place % FOLDS != fold]
        paths = folder / f"{name}-{fold}.csv", folder / f"{name}-{fold}-held.csv"
        for path, part in zip(paths, (rest, held), strict=True):
            path.write_text(_text([header, *part]), encoding="utf-8")
        yield paths


def score(predicted: Any, true: Any, is_class: bool) -> float:
    """The accuracy, or for numbers R²."""
    if is_class:
        return float(np.mean(predicted == true))
    return float(1 - np.sum((true - predicted) ** 2) / np.sum((true - np.mean(true)) ** 2))


def _text(rows: list[list[str]]) -> str:
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    return stream.getvalue()


def _of_scikit_learn(name: str) -> list[list[str]]:
    from sklearn import datasets

    loaded = getattr(datasets, f"load_{name}")()
    names = [str(column) for column in loaded.feature_names]
    classes = getattr(loaded, "target_names", None)
    targets = [str(t) if classes is None else str(classes[t]) for t in loaded.target]
    rows = zip(loaded.data.tolist(), targets, strict=True)
    return [[*names, "target"], *([*map(str, numbers), target] for numbers, target in rows)]


_SPECIES = {
    "Adelie": (152, (38.8, 18.3, 190.0, 3701), (2.66, 1.22, 6.5, 459), (0.29, 0.37, 0.34)),
    "Chinstrap": (68, (48.8, 18.4, 195.8, 3733), (3.34, 1.14, 7.1, 384), (0, 1, 0)),
    "Gentoo": (124, (47.5, 15.0, 217.2, 5076), (3.08, 0.98, 6.5, 504), (1, 0, 0)),
}
_ISLANDS = ("Biscoe", "Dream", "Torgersen")


def _penguins() -> list[list[str]]:
    rng = np.random.default_rng(1)
    names = ["island", "bill length", "bill depth", "flipper length", "body mass", "sex", "species"]
    rows = [names]
    for species, (count, mean, deviation, shares) in _SPECIES.items():
        for _ in range(count):
            is_male = rng.random() < 0.5
            noise = 0.7 * (0.6 * rng.normal() + 0.8 * rng.normal(size=4))
            sizes = np.array(mean) + np.array(deviation) * (noise + (0.7 if is_male else -0.7))
            cells = [f"{size:.1f}" for size in sizes[:3]] + [f"{sizes[3]:.0f} g"]
            sex = "" if rng.random() < 0.03 else "male" if is_male else "female"
            rows.append([str(rng.choice(_ISLANDS, p=shares)), *cells, sex, species])
    return rows


def _titanic() -> list[list[str]]:
    rng = np.random.default_rng(2)
    rows = [["passenger", "class", "sex", "age", "fare", "siblings", "port", "survived"]]
    for number in range(891):
        level, is_male = int(rng.choice(3, p=(0.24, 0.21, 0.55))), rng.random() < 0.65
        age, siblings = float(np.clip(rng.normal(30, 14), 1, 75)), int(rng.poisson(0.5))
        fare = float(np.exp(rng.normal((4.2, 2.9, 2.4)[level], 0.6)))
        port = str(rng.choice(("Southampton", "Cherbourg", "Queenstown"), p=(0.72, 0.19, 0.09)))
        luck = 1.2 - 2.7 * is_male + (1.0, 0.1, -1.0)[level] * (1 if is_male else 1.5)
        luck += -0.03 * (age - 30) - 0.4 * siblings + 1.5 * (age < 10 and is_male)
        survived = rng.random() < 1 / (1 + np.exp(-1.2 * luck))
        cells = [("first", "second", "third")[level], "male" if is_male else "female"]
        cells += ["" if rng.random() < 0.2 else f"{age:.0f}", f"£{fare:,.2f}", str(siblings), port]
        rows.append([f"Passenger {number}", *cells, "yes" if survived else "no"])
    return rows
