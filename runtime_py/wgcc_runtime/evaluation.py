"""Turns what `fit(eval=...)` accepts into one function that returns numbers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wgcc_runtime.arrays import as_array, check_names
from wgcc_runtime.data.preparation import Data
from wgcc_runtime.errors import WgccError
from wgcc_runtime.rows import row_count
from wgcc_runtime.runner import is_scalar

if TYPE_CHECKING:
    from wgcc_runtime.model import Model

Evaluate = Callable[[], dict[str, float]]
ENTRY = "eval"


def make_evaluation(model: Model, what: Any) -> Evaluate:
    """A function of the model, or data for the entry `eval`, of which every row counts."""
    if what is None:
        return dict
    if callable(what):
        return lambda: _numbers(what(model))
    if isinstance(what, Mapping | Data):
        entry = model.entry(ENTRY)
        run = model.map_prepared if isinstance(what, Data) else model.map
        what = what.arrays if isinstance(what, Data) else what
        check_names(what, entry)
        rows = {name: as_array(value, f"{ENTRY}: `{name}`") for name, value in what.items()}
        row_count(entry, rows, whole_batches=True)
        scalars = [n for n, t in entry.outputs.items() if is_scalar(t)]
        return lambda: {
            name: float(value) for name, value in run(ENTRY, **rows).items() if name in scalars
        }
    kind = type(what).__name__
    raise WgccError(
        "data", f"fit: `eval` is a function, data or a dict of arrays, not {kind}", "eval"
    )


def _numbers(result: Any) -> dict[str, float]:
    if isinstance(result, Mapping):
        return {str(name): float(value) for name, value in result.items()}
    return {} if result is None else {"value": float(result)}
