"""Reads arrays for an entry's inputs from .npz, .npy, .safetensors, .csv and folders of .npy."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING

from wgcc.lazy_numpy import Array, np

if TYPE_CHECKING:
    from wgcc_runtime.plan import Entry, Tensor

FORMATS = ".npz, .npy, .safetensors, .csv, or a folder of .npy files"


def read_inputs(path: Path, entry: Entry) -> dict[str, Array]:
    """The arrays with the names of the entry's inputs; others in the file are ignored."""
    from wgcc_runtime.errors import WgccError

    arrays = _read_csv(path, entry) if path.suffix == ".csv" else read_arrays(path)
    found = {name: arrays[name] for name in entry.inputs if name in arrays}
    for name, tensor in entry.inputs.items():
        if name not in found:
            there = ", ".join(arrays) or "nothing"
            text = (
                f"{path} has no `{name}` ({tensor}) for the entry `{entry.name}`; it has: {there}"
            )
            raise WgccError("data", text, name)
    return found


def read_arrays(path: Path) -> dict[str, Array]:
    """All arrays of a file or folder by name; a .npy file is named by its stem."""
    from wgcc_runtime.errors import WgccError
    from wgcc_runtime.weights import load_weights

    try:
        if path.is_dir():
            return {file.stem: _load(file) for file in sorted(path.glob("*.npy"))}
        if path.suffix == ".safetensors":
            return load_weights(path)[0]
        if path.suffix == ".npy":
            return {path.stem: _load(path)}
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError) as error:
        raise WgccError("data", f"cannot read {path}: {error}", str(path)) from None
    raise WgccError("data", f"{path} is not {FORMATS}", str(path))


def _load(path: Path) -> Array:
    array: Array = np.load(path, allow_pickle=False)
    return array


def _read_csv(path: Path, entry: Entry) -> dict[str, Array]:
    """One row per example. The columns of input `x` are `x`, or `x0`, `x1`, … (also x.0, x[0])."""
    from wgcc_runtime.errors import WgccError

    try:
        with open(path, newline="", encoding="utf-8-sig") as stream:
            rows = [row for row in csv.reader(stream) if row]
    except (OSError, ValueError, csv.Error) as error:
        raise WgccError("data", f"cannot read {path}: {error}", str(path)) from None
    if len(rows) < 2:
        raise WgccError("data", f"{path} has no rows under its header", str(path))
    header = [name.strip() for name in rows[0]]
    found = {name: _column_numbers(header, name) for name in entry.inputs}
    return {
        name: _columns(path, rows[1:], header, columns, entry.inputs[name])
        for name, columns in found.items()
        if columns
    } or {name: np.zeros(0) for name in header}


def _column_numbers(header: list[str], name: str) -> list[int]:
    if name in header:
        return [header.index(name)]
    pattern = re.compile(rf"{re.escape(name)}[._\[]?(\d+)\]?")
    numbered = [(int(m[1]), i) for i, text in enumerate(header) if (m := pattern.fullmatch(text))]
    return [i for _, i in sorted(numbered)]


def _columns(
    path: Path, rows: list[list[str]], header: list[str], columns: list[int], tensor: Tensor
) -> Array:
    from wgcc_runtime.errors import WgccError

    convert = float if tensor.is_float else int
    numbers = []
    for line, row in enumerate(rows, 2):
        for column in columns:
            try:
                numbers.append(convert(row[column]))
            except (IndexError, ValueError):
                cell = row[column] if column < len(row) else "missing"
                text = f"{path}, line {line}: `{header[column]}` is {cell!r}, not {tensor.dtype}"
                raise WgccError("data", text, header[column]) from None
    array: Array = np.array(numbers)
    shape = (len(rows), *tensor.shape[1:])
    # If the columns do not fill the shape, the later shape error reports both shapes.
    return array.reshape(shape if array.size == np.prod(shape) else (len(rows), len(columns)))
