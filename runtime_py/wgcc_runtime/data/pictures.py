"""Pictures as data: one row per file, and classes from the names of folders or files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wgcc_runtime.arrays import CALLER_TYPES, Array
from wgcc_runtime.data.form import EntryForm, ModelForm, Port
from wgcc_runtime.data.known_classes import KnownClasses, known_in, new_names, with_classes
from wgcc_runtime.data.options import Options
from wgcc_runtime.data.picture_files import PictureFile, find_pictures, read_pixels
from wgcc_runtime.data.preparation import Data
from wgcc_runtime.data.resize import Layout, layout_of, picture_row
from wgcc_runtime.data.rows_left import check_rows, other_inputs
from wgcc_runtime.data.source import Source


def read_pictures(
    places: Sequence[Path], source: Source, form: ModelForm, entry: EntryForm, options: Options
) -> Data:
    others = other_inputs(entry, options.values, source)
    image, labels = _inputs(entry, source)
    files = find_pictures(places, source)
    check_rows(source, entry, len(files))
    specs, arrays = {}, {}
    for port, layout in image:
        scale = 255 if port.is_float else 1
        specs[port.name] = {"kind": "pictures", "layout": layout.order, "scale": scale}
        arrays[port.name] = _rows(files, port, layout, scale)
    for port in labels:
        prepared = (options.preparation or {"inputs": {}})["inputs"].get(port.name, {})
        names = prepared.get("classes", form.classes.get(port.name, ()))
        known = known_in(names, port, entry.training) if names else None
        specs[port.name], arrays[port.name] = _classes(files, source, port, known)
    new = {
        "version": 1,
        "inputs": {name: specs[name] for name in entry.rows},
        "target": labels[0].name if labels else None,
        "missing": options.missing,
    }
    preparation = with_classes(options.preparation, specs) if options.preparation else new
    inputs = {name: arrays[name] for name in entry.rows}
    return Data({**inputs, **others}, preparation, len(files), entry.rows, source.notes)


def _inputs(entry: EntryForm, source: Source) -> tuple[list[tuple[Port, Layout]], list[Port]]:
    """The one input for pictures, and the one for their classes, if there is one."""
    ports = [entry.inputs[name] for name in entry.rows]
    image = [(port, layout) for port in ports if (layout := layout_of(port))]
    others = [port for port in ports if not layout_of(port)]
    labels = [port for port in others if port.takes_classes or len(port.row_shape) == 1]
    if len(image) != 1 or len(labels) > 1 or len(labels) < len(others):
        shapes = [f"`{port.name}` {port}" for port in ports] or ["none"]
        raise source.refuse("picture-inputs", entry=entry.name, inputs=shapes)
    return image, labels


def _rows(files: list[PictureFile], port: Port, layout: Layout, scale: float) -> Array:
    rows = np.stack([picture_row(read_pixels(file.path), layout, scale) for file in files])
    if not port.is_float:
        rows = np.floor(rows + 0.5)
    return rows.astype(CALLER_TYPES[port.dtype])


def _classes(
    files: list[PictureFile], source: Source, port: Port, known: KnownClasses | None
) -> tuple[dict[str, Any], Array]:
    for file in files:
        if not file.label:
            raise source.refuse("no-label", file=file.path.name)
    names = sorted({file.label for file in files})
    most = port.row_size if port.is_float else port.class_count
    if known is not None:
        names = _with_known(files, source, new_names(names, known.names), known)
    elif most is not None and len(names) > most:
        counts = {"count": len(names), "classes": names, "most": most}
        raise source.refuse("class-count", input=port.name, **counts)
    by_name = {name: number for number, name in enumerate(names)}
    ids = np.array([by_name[file.label] for file in files], np.int32)
    if port.is_float:
        return {"kind": "one hot", "classes": names}, np.eye(port.row_size, dtype=np.float32)[ids]
    return {"kind": "classes", "classes": names}, ids.reshape(len(ids), *port.row_shape)


def _with_known(
    files: list[PictureFile], source: Source, new: list[str], known: KnownClasses
) -> list[str]:
    if refusal := known.refusal(new):
        file = next(file for file in files if file.label in refusal.names)
        subject = f"{file.path.name} is of `{file.label}`"
        raise source.refuse(refusal.problem, subject=subject, **refusal.values)
    return known.with_new(new, source)
