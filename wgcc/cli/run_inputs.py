"""Inputs of `wgcc run`: arrays, numbers, and the rows of tables, pictures and texts."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.data import DataOptions, say_reading

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
