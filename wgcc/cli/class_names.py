"""Outputs of an entry as people read them: with the names of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wgcc.cli.printing import show, table
from wgcc.lazy_numpy import Array, np

# A longer table is cut.
MOST_ROWS = 20


def class_of_rows(array: Array, classes: Sequence[str] | None) -> list[str] | None:
    """The most probable class of each row; None if the output has not one number per class."""
    if not classes or array.ndim not in (1, 2) or array.shape[-1] != len(classes):
        return None
    best = np.atleast_2d(array).argmax(axis=1)
    return [classes[int(number)] for number in best]


def named_classes(
    results: Mapping[str, Array], classes: Sequence[str] | None
) -> dict[str, list[str]]:
    """The class of each row, for every output that has one."""
    found = {name: class_of_rows(array, classes) for name, array in results.items()}
    return {name: names for name, names in found.items() if names is not None}


def show_outputs(results: Mapping[str, Array], classes: Sequence[str] | None) -> None:
    for name, array in results.items():
        head = f"{name} {array.dtype}{list(array.shape)}"
        names = class_of_rows(array, classes)
        if names is None or classes is None:
            show(f"{head}\n{array}")
            continue
        rows = [["row", *classes, "class"]]
        for number, values in enumerate(np.atleast_2d(array)[:MOST_ROWS]):
            cells = [f"{value:.4g}" for value in values]
            rows.append([str(number + 1), *cells, names[number]])
        show(f"{head}\n{table(rows, right=range(len(classes) + 1))}")
        if len(names) > MOST_ROWS:
            show(f"… and {len(names) - MOST_ROWS} more rows; -o FILE writes all")
