"""Turns what `fit(eval=...)` accepts into one function that returns numbers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wgcc_runtime.arrays import Array, as_array
from wgcc_runtime.batches import check_names
from wgcc_runtime.errors import WgccError
from wgcc_runtime.runner import is_scalar

if TYPE_CHECKING:
    from wgcc_runtime.model import Model

Evaluate = Callable[[], dict[str, float]]
ENTRY = "eval"


def make_evaluation(model: Model, what: Any) -> Evaluate:
    """A function of the model, or arrays for the entry `eval`, whose scalars are averaged."""
    if what is None:
        return dict
    if callable(what):
        return lambda: _numbers(what(model))
    if isinstance(what, Mapping):
        rows = _whole_batches(model, what)
        scalars = [n for n, t in model.entry(ENTRY).outputs.items() if is_scalar(t)]
        return lambda: {
            name: float(value)
            for name, value in model.map(ENTRY, **rows).items()
            if name in scalars
        }
    kind = type(what).__name__
    raise WgccError("data", f"fit: `eval` is a function or a dict of arrays, not {kind}", "eval")


def _numbers(result: Any) -> dict[str, float]:
    if isinstance(result, Mapping):
        return {str(name): float(value) for name, value in result.items()}
    return {} if result is None else {"value": float(result)}


def _whole_batches(model: Model, data: Mapping[str, Any]) -> dict[str, Array]:
    """Averages are over full batches, so rows after the last full one are left out."""
    entry = model.entry(ENTRY)
    check_names(data, entry)
    arrays = {name: as_array(value, f"{ENTRY}: `{name}`") for name, value in data.items()}
    for name, array in arrays.items():
        shape = entry.inputs[name].shape
        if shape and array.shape[1:] == shape[1:] and len(array) >= shape[0]:
            arrays[name] = array[: len(array) // shape[0] * shape[0]]
    return arrays
