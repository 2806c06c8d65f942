"""Arrays for an entry's inputs from .npz, .npy and .safetensors files and folders of .npy files."""

from __future__ import annotations

from pathlib import Path

from wgcc_runtime.arrays import Array
from wgcc_runtime.data.form import EntryForm
from wgcc_runtime.data.numpy_files import read_numpy
from wgcc_runtime.data.preparation import Data
from wgcc_runtime.data.problems import join_items
from wgcc_runtime.data.rows_left import check_rows
from wgcc_runtime.data.source import Source
from wgcc_runtime.errors import WgccError
from wgcc_runtime.weights import load_weights

SUFFIXES = (".npz", ".npy", ".safetensors")


def read_arrays(path: Path) -> dict[str, Array]:
    """All arrays of a file or folder by name; a .npy file is named by its stem."""
    if path.is_dir():
        files = sorted(path.glob("*.npy"))
        return {name: array for file in files for name, array in read_arrays(file).items()}
    if path.suffix.lower() == ".safetensors":
        try:
            return load_weights(path)[0]
        except WgccError as error:
            raise WgccError("data", error.message, error.field) from None
    arrays = _numpy(path)
    return {path.stem: arrays[""]} if "" in arrays else arrays


def data_of_arrays(arrays: dict[str, Array], source: Source, entry: EntryForm) -> Data:
    """The arrays with the names of the entry's inputs; others are ignored."""
    for name, port in entry.inputs.items():
        if name not in arrays:
            there = join_items(arrays) or "nothing"
            what = f"`{name}` ({port}) for the entry `{entry.name}`"
            text = f"{source.name} has no {what}; it has: {there}"
            raise WgccError("data", text, name)
    inputs = {name: arrays[name] for name in entry.inputs}
    rows = _row_count(inputs, source, entry)
    return Data(inputs, None, rows, entry.rows, notes=source.notes)


def _row_count(arrays: dict[str, Array], source: Source, entry: EntryForm) -> int:
    """How many rows all inputs with rows have; refuses other shapes than the entry takes."""
    for name in entry.rows:
        shape, port = arrays[name].shape, entry.inputs[name]
        if not shape or shape[1:] != port.row_shape:
            shapes = {"shape": str(list(shape)), "wanted": str(list(port.shape))}
            raise source.refuse("array-shape", input=name, **shapes)
    counts = {name: len(arrays[name]) for name in entry.rows}
    first = next(iter(counts), "")
    for name, count in counts.items():
        if count != counts[first]:
            raise source.refuse(
                "array-rows", input=first, count=counts[first], other=name, length=count
            )
    rows = counts.get(first, 1)
    check_rows(source, entry, rows, may_repeat=False)
    return rows


def _numpy(path: Path) -> dict[str, Array]:
    """The arrays of a .npz file, or the one of a .npy file, without a name."""
    try:
        return read_numpy(path)
    except Exception as error:  # zipfile and numpy raise anything when a file is damaged
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise WgccError("data", f"cannot read {path}: {reason}", str(path)) from None
