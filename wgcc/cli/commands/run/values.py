"""The values of a call: inputs from files or the command line, outputs with names of classes."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.data import DataOptions, say_reading
from wgcc.cli.printing import show, table
from wgcc.lazy_numpy import Array, np

if TYPE_CHECKING:
    from wgcc_runtime.model import Model
    from wgcc_runtime.plan import Entry


def read_inputs(
    items: tuple[str, ...], model: Model, entry: Entry, options: DataOptions
) -> dict[str, Any]:
    """`FILE`, `NAME=FILE` or `NAME=NUMBER`: arrays and numbers by the names of inputs."""
    from wgcc_runtime.data.array_files import SUFFIXES

    found: dict[str, Any] = {}
    files = []
    for item in items:
        name, has_name, value = item.partition("=")
        if has_name and not Path(item).exists():
            found[name] = _value(value)
        else:
            files.append(Path(item))
    for path in files:
        if path.suffix.lower() in SUFFIXES or not path.exists():
            found.update(_arrays(path, entry))
        else:
            found.update(_rows(path, model, entry, options, found))
    return found


def _arrays(path: Path, entry: Entry) -> dict[str, Any]:
    from wgcc_runtime.data.array_files import read_arrays

    arrays = read_arrays(path)
    if path.suffix == ".npy" and path.stem not in entry.inputs and len(entry.inputs) == 1:
        return {next(iter(entry.inputs)): arrays[path.stem]}
    return arrays


def _rows(
    path: Path, model: Model, entry: Entry, options: DataOptions, others: dict[str, Any]
) -> dict[str, Any]:
    """A table is read as the one that the model was trained with."""
    known = model.preparation if options.columns is None else None
    data = replace(options, values=others).read(path, model, entry.name, preparation=known)
    say_reading(path, data, DataOptions(scale=True))
    return data.arrays


def _value(text: str) -> Any:
    from wgcc_runtime.data.array_files import read_arrays

    if Path(text).exists():
        arrays = read_arrays(Path(text))
        if len(arrays) != 1:
            raise click.UsageError(
                f"{text} holds {len(arrays)} arrays; give it without NAME=, as "
                f"-i {shlex.quote(text)}"
            )
        return next(iter(arrays.values()))
    try:
        return json.loads(text)
    except ValueError:
        raise click.UsageError(f"{text} is neither a file nor a number") from None


# A longer table is cut.
MOST_ROWS = 20


def class_names(model: Model) -> list[str] | None:
    """The names of all classes that the model tells apart; those without one have their number."""
    names = model.classes
    if names is None or model.preparation is None:
        return None
    target = model.preparation["target"]
    limits = [
        entry.ranges[target] for entry in model.plan.entries.values() if target in entry.ranges
    ]
    count = max((limit.high + 1 for limit in limits), default=0)
    return [*names, *(str(number) for number in range(len(names), count))]


@dataclass(frozen=True, slots=True)
class Outputs:
    """What an entry returned. `classes` are the names of a model's classes, if it has some."""

    entry: Entry
    arrays: Mapping[str, Array]
    classes: Sequence[str] | None

    def class_of_rows(self, name: str) -> list[str] | None:
        """The likeliest class of each row; None if the output has not one number per class."""
        array = self.arrays[name]
        if not self.classes or array.dtype.kind != "f" or array.shape[-1:] != (len(self.classes),):
            return None
        forms = self.entry.rows.outputs if self.entry.rows else {}
        if array.ndim > 2 or (array.ndim == 1 and forms.get(name) == "rows"):
            return None
        best = np.atleast_2d(array).argmax(axis=1)
        return [self.classes[int(number)] for number in best]

    def named(self) -> dict[str, list[str]]:
        """The class of each row, for every output that has one."""
        found = {name: self.class_of_rows(name) for name in self.arrays}
        return {name: names for name, names in found.items() if names is not None}

    def show(self) -> None:
        for name, array in self.arrays.items():
            head = f"{name} {array.dtype}{list(array.shape)}"
            names = self.class_of_rows(name)
            if names is None:
                show(f"{head}\n{array}")
            else:
                show(f"{head}\n{self._table(array, names)}")

    def _table(self, array: Array, names: list[str]) -> str:
        assert self.classes is not None
        rows = [["row", *self.classes, "class"]]
        for number, values in enumerate(np.atleast_2d(array)[:MOST_ROWS]):
            cells = [f"{value:.4g}" for value in values]
            rows.append([str(number + 1), *cells, names[number]])
        text = table(rows, right=range(len(self.classes) + 1))
        more = len(names) - MOST_ROWS
        return f"{text}\n… and {more} more rows; -o FILE writes all" if more > 0 else text

    def csv(self) -> bytes:
        """One line per row, with a header; for outputs that have as many rows as the first."""
        columns = dict(self._columns())
        rows = len(next(iter(columns.values()), []))
        kept = {name: cells for name, cells in columns.items() if len(cells) == rows}
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(kept)
        writer.writerows(zip(*kept.values(), strict=True))
        return stream.getvalue().encode("utf-8")

    def _columns(self) -> Iterator[tuple[str, list[str]]]:
        for name, array in self.arrays.items():
            names = self.class_of_rows(name)
            flat = np.atleast_2d(array) if names else array.reshape(len(np.atleast_1d(array)), -1)
            for number, column in enumerate(flat.T):
                single = f"{name}{number}" if flat.shape[1] > 1 else name
                head = f"{name} {self.classes[number]}" if names and self.classes else single
                yield head, [str(value) for value in column.tolist()]
            if names:
                yield f"{name} class", names
