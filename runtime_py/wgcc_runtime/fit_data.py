"""Data of `fit` that is no dict: `(X, y)`, rows held out for evaluation, sets of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array, as_array, is_frame
from wgcc_runtime.batches import FILL, Length
from wgcc_runtime.data.form import ModelForm, form_of
from wgcc_runtime.data.pairs import Pair, read_pair
from wgcc_runtime.data.preparation import Data
from wgcc_runtime.drawn import random_words
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import Entry, Plan


def name_inputs(form: ModelForm, entry: Entry, batches: Any, y: Any) -> Any:
    """`fit(X, y)` as a `Pair`; everything else as it is. `form` has the classes that are known."""
    if y is not None:
        return read_pair(form, form.entry(entry.name), batches, y)
    if is_frame(batches) or hasattr(batches, "__array__"):
        text = "fit: a frame or array alone has no names of inputs: give `fit(X, y)`, a dict of"
        raise WgccError("data", f"{text} arrays, or what `read_data(frame, model)` returns")
    if _is_sample_set(batches):
        return _stack_samples(batches, entry)
    return batches


def _is_sample_set(data: Any) -> bool:
    """A set of samples by number, such as a `torch.utils.data.Dataset`, that is no iterable."""
    has_items = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    return has_items and not isinstance(data, Mapping) and not hasattr(data, "__iter__")


def _stack_samples(samples: Any, entry: Entry) -> dict[str, Array]:
    rows = [samples[number] for number in range(len(samples))]
    if not rows:
        raise WgccError("data", f"{entry.name}: the data has no samples")
    if isinstance(rows[0], Mapping):
        rows = [tuple(row[name] for name in entry.inputs) for row in rows]
    if not isinstance(rows[0], tuple | list) or len(rows[0]) != len(entry.inputs):
        names = ", ".join(entry.inputs)
        raise WgccError("data", f"{entry.name}: a sample is a tuple of {names}")
    return {
        name: np.stack([as_array(row[number], f"{entry.name}: `{name}`") for row in rows])
        for number, name in enumerate(entry.inputs)
    }


def hold_out(
    plan: Plan, entry: Entry, batches: Any, evaluation: Any, validation: Any
) -> tuple[Any, Any]:
    """The data to train with, and that of `eval` or `validation`, which mean the same."""
    classes = batches.classes if isinstance(batches, Pair) else {}
    if validation is None:
        return batches, _name_evaluation(plan, evaluation, classes)
    if evaluation is not None:
        raise WgccError("data", "fit: `eval` and `validation` exclude each other", "validation")
    if isinstance(validation, bool) or not isinstance(validation, int | float):
        return batches, _name_evaluation(plan, validation, classes)
    if not 0 < validation < 1:
        text = f"fit: `validation` is a share between 0 and 1, or data, not {validation!r}"
        raise WgccError("range", text, "validation")
    if "eval" not in plan.entries:
        raise _no_evaluation()
    if isinstance(batches, Data):
        return batches.split(validation)
    arrays = batches.inputs if isinstance(batches, Pair) else batches
    if not isinstance(arrays, Mapping):
        text = "fit: `validation` holds rows of arrays out; this data has none: give it data"
        raise WgccError("data", text, "validation")
    train, held = _split(arrays, entry, validation)
    held = {name: held[name] for name in plan.entries["eval"].inputs if name in held}
    return (replace(batches, inputs=train) if isinstance(batches, Pair) else train), held


def _name_evaluation(plan: Plan, evaluation: Any, classes: Mapping[str, Sequence[str]]) -> Any:
    """`(X, y)` by name, with the classes of the data to train with."""
    if not isinstance(evaluation, tuple | list) or len(evaluation) != 2:
        return evaluation
    if "eval" not in plan.entries:
        raise _no_evaluation()
    form = replace(form_of(plan), classes=classes)
    return read_pair(form, form.entry("eval"), *evaluation).inputs


def _no_evaluation() -> WgccError:
    text = "fit: evaluating needs an entry `eval`, which the model does not have: write one that"
    text += " takes what `train` takes and returns the loss"
    return WgccError("name", text, "eval")


def _split(
    batches: Mapping[str, Any], entry: Entry, share: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rows are chosen as by `Data.split`. Inputs without rows belong to both parts."""
    total = row_count(batches, entry)
    if total < 2:
        raise WgccError("data", "a single row cannot be split into two parts", "validation")
    order = np.argsort(random_words(0, "held out", total, 0), kind="stable")
    count = min(max(1, int(share * total + 0.5)), total - 1)
    parts = np.sort(order[count:]), np.sort(order[:count])
    arrays = {name: as_array(value, f"{entry.name}: `{name}`") for name, value in batches.items()}
    train, held = (
        {
            name: array[rows] if array.ndim and len(array) == total else array
            for name, array in arrays.items()
        }
        for rows in parts
    )
    return train, held


def row_count(arrays: Mapping[str, Any], entry: Entry) -> int:
    """The rows of a dict of arrays; one if no input has rows."""
    names = [name for name in (entry.rows.inputs if entry.rows else ()) if name in arrays]
    return len(arrays[names[0]]) if names else 1


def epoch_steps(data: Any, entry: Entry, length: Length) -> int | None:
    """How many steps the epochs of the data are, if they can be counted."""
    if length.epochs is None:
        return None
    if isinstance(data, Mapping):
        batch = entry.rows.count if entry.rows else 1
        count = row_count(data, entry)
        whole = -(-count // batch) if length.partial == FILL else count // batch
        return length.epochs * max(1, whole)
    return length.epochs * len(data) if hasattr(data, "__len__") else None
