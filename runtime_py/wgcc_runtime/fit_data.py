"""Data of `fit` that is no dict: `(X, y)`, rows held out for evaluation, sets of samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array, as_array
from wgcc_runtime.batches import FILL, Length
from wgcc_runtime.data.form import form_of
from wgcc_runtime.data.preparation import Data
from wgcc_runtime.drawn import random_words
from wgcc_runtime.errors import WgccError
from wgcc_runtime.frames import is_frame
from wgcc_runtime.plan import Entry, Plan, Tensor


def name_inputs(plan: Plan, entry: Entry, batches: Any, y: Any) -> Any:
    """`fit(X, y)` as a dict of arrays; everything else as it is."""
    if y is not None:
        return named_pair(plan, entry, batches, y)
    if is_frame(batches) or hasattr(batches, "__array__"):
        text = "fit: a frame or array alone has no names of inputs: give `fit(X, y)`, a dict of"
        raise WgccError("data", f"{text} arrays, or what `read_data(frame, model)` returns")
    if _is_sample_set(batches):
        return _stack_samples(batches, entry)
    return batches


def named_pair(plan: Plan, entry: Entry, x: Any, y: Any) -> dict[str, Any]:
    """Both by the names that an entry with one input and one target has for them."""
    names = list(entry.inputs)
    form = form_of(plan)
    target = form.target(form.entry(entry.name))
    if len(names) != 2 or target not in names:
        takes = ", ".join(names)
        text = f"`{entry.name}` takes {takes}: `(X, y)` needs one input and one target; give a dict"
        raise WgccError("data", text, entry.name)
    (own,) = [name for name in names if name != target]
    return {name: _fit_shape(value, entry, name) for name, value in ((own, x), (target, y))}


def _fit_shape(value: Any, entry: Entry, name: str) -> Any:
    """A column as `[rows, 1]` where the input has one number in each row, and the reverse."""
    if is_frame(value) and entry.inputs[name].shape[1:] != ():
        return value  # with its columns, for messages
    array, tensor = as_array(value, f"{entry.name}: `{name}`"), entry.inputs[name]
    if array.ndim and _row_size(tensor) == 1 and array.size == len(array):
        return array.reshape(len(array), *tensor.shape[1:])
    return array


def _row_size(tensor: Tensor) -> int:
    return int(np.prod(tensor.shape[1:], dtype=np.int64))


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
    if validation is None:
        return batches, _name_evaluation(plan, evaluation)
    if evaluation is not None:
        raise WgccError("data", "fit: `eval` and `validation` exclude each other", "validation")
    if isinstance(validation, bool) or not isinstance(validation, int | float):
        return batches, _name_evaluation(plan, validation)
    if not 0 < validation < 1:
        text = f"fit: `validation` is a share between 0 and 1, or data, not {validation!r}"
        raise WgccError("range", text, "validation")
    if "eval" not in plan.entries:
        raise _no_evaluation()
    if isinstance(batches, Data):
        return batches.split(validation)
    if not isinstance(batches, Mapping):
        text = "fit: `validation` holds rows of arrays out; this data has none: give it data"
        raise WgccError("data", text, "validation")
    train, held = _split(batches, entry, validation)
    return train, {name: held[name] for name in plan.entries["eval"].inputs if name in held}


def _name_evaluation(plan: Plan, evaluation: Any) -> Any:
    if not isinstance(evaluation, tuple | list) or len(evaluation) != 2:
        return evaluation
    if "eval" not in plan.entries:
        raise _no_evaluation()
    return named_pair(plan, plan.entries["eval"], *evaluation)


def _no_evaluation() -> WgccError:
    text = "fit: evaluating needs an entry `eval`, which the model does not have"
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
