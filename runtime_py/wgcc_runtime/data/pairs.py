"""`fit(X, y)` as inputs by name, with what the trained model keeps of them.

Names of classes in `y` become ids, and columns of a frame are kept by name, so that a later call
takes them in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wgcc_runtime.arrays import as_array, is_frame
from wgcc_runtime.data.classes import Classes, read_classes
from wgcc_runtime.data.columns import NAMES, Column, Table
from wgcc_runtime.data.form import EntryForm, ModelForm, Port
from wgcc_runtime.data.frame_tables import cell_text, frame_columns
from wgcc_runtime.data.known_classes import known_in
from wgcc_runtime.data.numbers import MISSING
from wgcc_runtime.data.preparation import VERSION, Preparation
from wgcc_runtime.data.source import Source
from wgcc_runtime.errors import WgccError


@dataclass(frozen=True, slots=True)
class Pair:
    """Both inputs by name; `preparation` is None where the model has nothing to keep of them."""

    inputs: dict[str, Any]
    preparation: Preparation | None

    @property
    def classes(self) -> dict[str, list[str]]:
        """Names of classes by input."""
        specs = self.preparation["inputs"] if self.preparation else {}
        return {name: spec["classes"] for name, spec in specs.items() if "classes" in spec}


def read_pair(form: ModelForm, entry: EntryForm, x: Any, y: Any) -> Pair:
    """Both by the names that an entry with one input and one target has for them."""
    names, target = list(entry.inputs), form.target(entry)
    if len(names) != 2 or target is None:
        text = f"`{entry.name}` takes {', '.join(names)}: `(X, y)` needs one input and one target"
        raise WgccError("data", f"{text}; give a dict", entry.name)
    (own,) = [name for name in names if name != target]
    specs: dict[str, Any] = _spec_of_frame(entry.inputs[own], x)
    column, classes = _name_of(y, target), _read_names(form, entry, target, y)
    if classes is not None:
        assert classes.names is not None
        specs[target] = {"kind": "classes", "classes": classes.names}
        y = classes.ids
    if own in specs:
        specs.setdefault(target, {"kind": "columns"})["columns"] = [column]
    inputs = {own: _fit_shape(x, entry, own), target: _fit_shape(y, entry, target)}
    preparation = {"version": VERSION, "inputs": specs, "target": target, "missing": "drop"}
    return Pair(inputs, preparation if specs else None)


def _spec_of_frame(port: Port, x: Any) -> dict[str, Any]:
    """The columns of a frame, if there is one for each number of a row."""
    columns = frame_columns(x) if is_frame(x) else {}
    if not columns or len(columns) != port.row_size:
        return {}
    return {port.name: {"kind": "columns", "columns": list(columns)}}


def _name_of(y: Any, target: str) -> str:
    """A series has a name, as has the only column of a frame."""
    name = next(iter(frame_columns(y)), None) if is_frame(y) else getattr(y, "name", None)
    return name if isinstance(name, str) else target


def _read_names(form: ModelForm, entry: EntryForm, target: str, y: Any) -> Classes | None:
    """The ids of names; None where `y` holds numbers."""
    port = entry.inputs[target]
    values = as_array(y, target) if hasattr(y, "requires_grad") else np.asarray(y)
    if not port.takes_classes or not _holds_names(values):
        return None
    cells = [cell_text(value) for value in values.reshape(-1)]
    source = Source(f"`{target}`", "row")
    for row, cell in enumerate(cells):
        if cell in MISSING:
            text = f"{entry.name}: `{target}` has no value in row {row}: leave out rows without one"
            raise WgccError("data", text, target)
    column = Column(target, 1, cells, NAMES, [], 0, frozenset())
    table = Table(source, [column], list(range(len(cells))), has_header=True)
    known = form.classes.get(target)
    rows = range(len(cells))
    return read_classes(
        table, column, rows, port, known_in(known, port, entry.training) if known else None
    )


def _holds_names(values: Any) -> bool:
    return values.dtype.kind in "US" or (
        values.dtype == object and any(isinstance(value, str) for value in values.reshape(-1))
    )


def _fit_shape(value: Any, entry: EntryForm, name: str) -> Any:
    """A column as `[rows, 1]` where the input has one number in each row, and the reverse."""
    port = entry.inputs[name]
    if is_frame(value) and port.row_shape != ():
        return value  # with its columns, for messages
    array = as_array(value, f"{entry.name}: `{name}`")
    if array.ndim and port.row_size == 1 and array.size == len(array):
        return array.reshape(len(array), *port.row_shape)
    return array
