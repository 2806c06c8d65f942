"""What was done to the data that a model was trained with, kept with the model.

It turns new rows into what the model takes, and its outputs into what people read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.data.scaling import scaled, unscaled
from wgcc_runtime.errors import WgccError
from wgcc_runtime.javascript_json import as_javascript, with_sorted_keys
from wgcc_runtime.plan import Entry, Plan
from wgcc_runtime.strict_json import parse_json

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
    found = parse_json(text.encode(), what, MAX_BYTES, "weights")
    if isinstance(found, dict) and found.get("version") not in (None, VERSION):
        version = found["version"]
        raise WgccError("version", f"{what} has a preparation of version {version!r}, not 1", what)
    if not _is_preparation(found):
        raise WgccError("weights", f"{what} has a preparation this runtime does not know", what)
    result: Preparation = found
    return result


def prepared_inputs(preparation: Preparation, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Raw rows as the model takes them: columns that were scaled for training are scaled."""
    specs = preparation["inputs"]
    return {name: _scale(value, specs.get(name)) for name, value in inputs.items()}


def readable_outputs(
    preparation: Preparation, plan: Plan, entry: Entry, outputs: dict[str, Array]
) -> dict[str, Array]:
    """Outputs in the target's own units: the float output that stands for a scaled target."""
    name = _predicted(preparation, plan, entry)
    if name is None:
        return outputs
    spec, values = preparation["inputs"][preparation["target"]], outputs[name]
    flat = values.reshape(-1, len(spec["mean"]))
    rows = unscaled(flat, np.array(spec["mean"]), np.array(spec["deviation"]))
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


def _scale(value: Any, spec: Mapping[str, Any] | None) -> Any:
    if not spec or "mean" not in spec:
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or array.ndim == 0:
        return value  # the check that follows reports it
    width = len(spec["mean"])
    if math.prod(array.shape[1:]) != width:
        return value
    rows = scaled(
        array.reshape(len(array), width), np.array(spec["mean"]), np.array(spec["deviation"])
    )
    return rows.reshape(array.shape).astype(np.float32)


def _predicted(preparation: Preparation, plan: Plan, entry: Entry) -> str | None:
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


def _is_preparation(found: Any) -> bool:
    if not isinstance(found, dict) or found.get("version") != VERSION:
        return False
    inputs, target = found.get("inputs"), found.get("target")
    if not isinstance(inputs, dict) or not (target is None or isinstance(target, str)):
        return False
    return found.get("missing", "drop") in ("drop", "mean") and all(map(_is_spec, inputs.values()))


def _is_spec(spec: Any) -> bool:
    if not isinstance(spec, dict) or spec.get("kind") not in KINDS:
        return False
    names = [spec.get("columns", []), spec.get("classes", [])]
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
