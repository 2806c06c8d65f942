"""Arrays for an entry's inputs from .npz, .npy and .safetensors files and folders of .npy files."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.data.form import EntryForm
from wgcc_runtime.data.result import Data
from wgcc_runtime.data.source import Source, listed
from wgcc_runtime.errors import WgccError
from wgcc_runtime.weights import load_weights

SUFFIXES = (".npz", ".npy", ".safetensors")


def read_arrays(path: Path) -> dict[str, Array]:
    """All arrays of a file or folder by name; a .npy file is named by its stem."""
    try:
        if path.is_dir():
            return {file.stem: _load(file) for file in sorted(path.glob("*.npy"))}
        if path.suffix.lower() == ".safetensors":
            return load_weights(path)[0]
        if path.suffix.lower() == ".npy":
            return {path.stem: _load(path)}
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise WgccError("data", f"cannot read {path}: {error}", str(path)) from None


def data_of_arrays(arrays: dict[str, Array], source: Source, entry: EntryForm) -> Data:
    """The arrays with the names of the entry's inputs; others are ignored."""
    for name, port in entry.inputs.items():
        if name not in arrays:
            there = listed(arrays) or "nothing"
            what = f"`{name}` ({port}) for the entry `{entry.name}`"
            text = f"{source.name} has no {what}; it has: {there}"
            raise WgccError("data", text, name)
    found = {name: arrays[name] for name in entry.inputs}
    rows = [len(found[name]) for name in entry.rows if found[name].ndim]
    return Data(found, None, rows[0] if rows else 1, entry.rows, notes=source.notes)


def _load(path: Path) -> Array:
    array: Array = np.load(path, allow_pickle=False)
    return array
