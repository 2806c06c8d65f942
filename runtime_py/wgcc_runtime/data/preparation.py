"""The preparation of the data that a model was trained with, which is kept with the model.

It turns new rows into what the model takes, and its outputs into what people read. Sums are made in
the order of rows, as in JavaScript.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array, is_frame
from wgcc_runtime.data.columns import make_table
from wgcc_runtime.data.features import feature_names, is_source, make_features, read_amounts
from wgcc_runtime.data.frame_tables import frame_columns, frame_records
from wgcc_runtime.data.numbers import POINT
from wgcc_runtime.data.source import Source
from wgcc_runtime.drawn import random_words
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import Entry, Plan
from wgcc_runtime.strict_json import as_javascript, parse_json, with_sorted_keys


def total(values: Array) -> float:
    """The sum, added one after the other: `np.sum` and `sum` add in other orders."""
    return float(np.cumsum(values, dtype=np.float64)[-1])


def mean_of(values: Array) -> float:
    return total(values) / len(values)


def deviation_of(values: Array, mean: float) -> float:
    """The deviation of the population; for equal values it is 0, however `mean` was rounded."""
    if values.min() == values.max():
        return 0.0
    return sqrt(total((values - mean) * (values - mean)) / len(values))


def needs_scaling(values: Array) -> bool:
    """Whether training would be slow or fail with the column as it is."""
    mean = mean_of(values)
    deviation = deviation_of(values, mean)
    return abs(mean) > 3 or deviation > 3 or deviation < 0.1


def scale(values: Array, mean: Array, deviation: Array) -> Array:
    """Scales rows of numbers, in float64; a deviation of 0 counts as 1."""
    return (np.asarray(values, np.float64) - mean) / np.where(deviation == 0, 1.0, deviation)


def unscale(values: Array, mean: Array, deviation: Array) -> Array:
    return np.asarray(values, np.float64) * np.where(deviation == 0, 1.0, deviation) + mean


def scaled_anew(
    rows: Array, others: Array, spec: Mapping[str, Any]
) -> tuple[dict[str, Any], Array, Array]:
    """Scaled `rows` and `others`, scaled by mean and deviation of `rows` alone; and how."""
    old = np.array([deviation or 1.0 for deviation in spec["deviation"]])
    columns = rows.reshape(len(rows), -1).astype(np.float64)
    shift = [mean_of(column) for column in columns.T]
    spread = [deviation_of(column, mean) for column, mean in zip(columns.T, shift, strict=True)]
    mean, deviation = np.array(spec["mean"]) + old * shift, old * spread
    factor = old / np.where(deviation == 0, 1.0, deviation)

    def scaled_part(part: Array) -> Array:
        wide = part.reshape(len(part), -1).astype(np.float64)
        return ((wide - shift) * factor).astype(part.dtype).reshape(part.shape)

    more = {"mean": mean.tolist(), "deviation": deviation.tolist()}
    return {**spec, **more}, scaled_part(rows), scaled_part(others)


Preparation = dict[str, Any]
VERSION = 1
KEY = "preparation"
KINDS = ("columns", "classes", "one hot", "pictures", "text")
MAX_BYTES = 1 << 20


def preparation_text(preparation: Preparation) -> str:
    """Compact JSON with sorted keys and JavaScript's numbers: the same in both languages."""
    return as_javascript(with_sorted_keys(preparation))


def parse_preparation(text: str, what: str) -> Preparation:
    """The preparation that a file's metadata holds; `what` names the file in errors."""
    content = parse_json(text.encode(), what, MAX_BYTES, "weights")
    if isinstance(content, dict) and content.get("version") not in (None, VERSION):
        version = content["version"]
        raise WgccError("version", f"{what} has a preparation of version {version!r}, not 1", what)
    if not _is_preparation(content):
        raise WgccError("weights", f"{what} has a preparation this runtime does not know", what)
    preparation: Preparation = content
    return preparation


def prepared_inputs(preparation: Preparation, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Raw rows as the model takes them: columns that were scaled for training are scaled."""
    specs = preparation["inputs"]
    fills = preparation.get("missing") == "mean"
    return {name: _prepare(name, value, specs.get(name), fills) for name, value in inputs.items()}


def readable_outputs(
    preparation: Preparation, plan: Plan, entry: Entry, outputs: dict[str, Array]
) -> dict[str, Array]:
    """Outputs in the target's own units: the float output that stands for a scaled target."""
    name = _predicted_output(preparation, plan, entry)
    if name is None:
        return outputs
    spec, values = preparation["inputs"][preparation["target"]], outputs[name]
    flat = values.reshape(-1, len(spec["mean"]))
    rows = unscale(flat, np.array(spec["mean"]), np.array(spec["deviation"]))
    return {**outputs, name: rows.astype(values.dtype).reshape(values.shape)}


def class_names(preparation: Preparation | None) -> list[str] | None:
    """The names of the target's classes; None where they are known by their numbers alone."""
    if not preparation:
        return None
    spec = preparation["inputs"].get(preparation["target"], {})
    names: list[str] | None = spec.get("classes")
    return None if is_only_names(preparation) and _are_numbers(names) else names


def is_only_names(preparation: Preparation) -> bool:
    """Whether it says nothing but names of classes."""
    return all("classes" in s and "columns" not in s for s in preparation["inputs"].values())


def _are_numbers(names: list[str] | None) -> bool:
    return names is not None and names == [str(number) for number in range(len(names))]


def _prepare(name: str, value: Any, spec: Mapping[str, Any] | None, fills: bool) -> Any:
    if not spec:
        return value
    if is_frame(value) and "sources" in spec:
        value = _frame_features(value, spec, name)
        if fills and "mean" in spec:
            value = np.where(np.isnan(value), spec["mean"], value)
    elif is_frame(value) and "columns" in spec:
        value = _select_columns(value, spec["columns"], name)
    return _scale(value, spec) if "mean" in spec else value


def _select_columns(frame: Any, columns: list[str], name: str) -> Any:
    """The columns that the model was trained with, in their order; a frame may have more."""
    own = frame_columns(frame)
    for column in columns:
        if column not in own:
            source = Source(f"the frame of `{name}`")
            raise source.refuse("no-trained-column", column=column, columns=list(own))
    return frame[[own[column] for column in columns]]


def _frame_features(frame: Any, spec: Mapping[str, Any], name: str) -> Array:
    """The features of a frame's columns; cells without a value are NaN, as frames have them."""
    source = Source(f"the frame of `{name}`")
    names = [s["column"] for s in spec["sources"]]
    records = frame_records(_select_columns(frame, names, name), source)
    table = make_table(records.records, POINT, source, names, header=True)
    read_amounts(table, POINT)
    features = make_features(table, table.columns, spec["sources"])
    rows: Array = np.array([feature.values for feature in features], np.float64).T
    return rows


def _scale(value: Any, spec: Mapping[str, Any]) -> Any:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or array.ndim == 0:
        return value  # the check that follows reports it
    width = len(spec["mean"])
    if math.prod(array.shape[1:]) != width:
        return value
    rows = scale(
        array.reshape(len(array), width), np.array(spec["mean"]), np.array(spec["deviation"])
    )
    return rows.reshape(array.shape).astype(np.float32)


def _predicted_output(preparation: Preparation, plan: Plan, entry: Entry) -> str | None:
    """The only float output of an entry with rows like those of the target, if that is scaled."""
    target = preparation["target"]
    if "mean" not in preparation["inputs"].get(target, {}):
        return None
    rows = {
        e.inputs[target].shape[1:]
        for e in plan.entries.values()
        if e.training and target in e.inputs
    }
    fitting = [
        name
        for name, tensor in entry.outputs.items()
        if tensor.is_float and tensor.shape and tensor.shape[1:] in rows
    ]
    return fitting[0] if len(fitting) == 1 else None


def _is_preparation(content: Any) -> bool:
    if not isinstance(content, dict) or content.get("version") != VERSION:
        return False
    inputs, target = content.get("inputs"), content.get("target")
    if not isinstance(inputs, dict) or not (target is None or isinstance(target, str)):
        return False
    return content.get("missing", "drop") in ("drop", "mean") and all(
        map(_is_spec, inputs.values())
    )


def _is_spec(spec: Any) -> bool:
    if not isinstance(spec, dict) or spec.get("kind") not in KINDS:
        return False
    names = [spec.get("columns", []), spec.get("classes", [])]
    sources = spec.get("sources", [])
    if not isinstance(sources, list) or not all(map(is_source, sources)):
        return False
    if sources and [n for source in sources for n in feature_names(source)] != names[0]:
        return False
    if not all(isinstance(n, list) and all(isinstance(name, str) for name in n) for n in names):
        return False
    if ("mean" in spec) != ("deviation" in spec):
        return False
    scales = [spec.get("mean", []), spec.get("deviation", [])]
    if not all(isinstance(s, list) and all(map(_is_number, s)) for s in scales):
        return False
    return "mean" not in spec or len(scales[0]) == len(scales[1]) == len(names[0])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(slots=True, repr=False)
class Data:
    """Made by `read_data`; `fit` takes it and keeps its preparation with the model.

    `arrays` by input; those named in `with_rows` have one row per example. `dropped` has for each
    reason the number of rows and the first line; `columns` the columns of a table with their kinds
    and inputs; `needs_scaling` the columns that should be scaled but were not asked to be.
    """

    arrays: dict[str, Array]
    preparation: Preparation | None
    rows: int
    with_rows: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    columns: list[dict[str, Any]] = field(default_factory=list)
    needs_scaling: list[str] = field(default_factory=list)
    # Whether the scaling was computed from these rows, so that a part of them needs its own.
    own_scaling: bool = False

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name} {list(array.shape)}" for name, array in self.arrays.items())
        return f"<Data: {self.rows:,} rows; {arrays}>"

    def split(self, share: float, seed: int = 0) -> tuple[Data, Data]:
        """Rows to train with, and a `share` of them to judge with, chosen by `seed`.

        Scaling, if it was asked for, is computed anew from the rows to train with.
        """
        if not 0 < share < 1:
            raise WgccError("range", f"a held-out share is between 0 and 1, not {share!r}", "share")
        order = np.argsort(random_words(seed, "held out", self.rows, 0), kind="stable")
        count = min(max(1, int(share * self.rows + 0.5)), self.rows - 1)
        if count < 1:
            raise WgccError("data", "a single row cannot be split into two parts", "share")
        train, held = self._of(np.sort(order[count:])), self._of(np.sort(order[:count]))
        return _scaled_alone(train, held) if self.own_scaling else (train, held)

    def repeat_rows(self, batch: int) -> dict[str, Array]:
        """The arrays, all rows as often as a batch needs them. Arrays of files are as given."""
        if self.rows >= batch or self.preparation is None:
            return self.arrays
        times = -(-batch // self.rows)
        return self._of(np.tile(np.arange(self.rows), times)).arrays

    def _of(self, rows: Array) -> Data:
        arrays = {n: a[rows] if n in self.with_rows else a for n, a in self.arrays.items()}
        return replace(self, arrays=arrays, rows=len(rows))


def _scaled_alone(train: Data, held: Data) -> tuple[Data, Data]:
    """Both, scaled by the rows to train with alone: nothing of the others may be known."""
    assert train.preparation is not None
    inputs: dict[str, Any] = dict(train.preparation["inputs"])
    arrays = [dict(train.arrays), dict(held.arrays)]
    for name, spec in inputs.items():
        if "mean" in spec:
            inputs[name], *parts = scaled_anew(train.arrays[name], held.arrays[name], spec)
            for part, array in zip(arrays, parts, strict=True):
                part[name] = array
    preparation = {**train.preparation, "inputs": inputs}
    both = zip((train, held), arrays, strict=True)
    first, second = (replace(data, arrays=a, preparation=preparation) for data, a in both)
    return first, second
