"""Runs an entry of fixed shape over any number of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from wgcc_runtime.arrays import Array, as_array
from wgcc_runtime.batches import check_names
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import Entry

if TYPE_CHECKING:
    from wgcc_runtime.model import Model


def map_rows(model: Model, entry: Entry, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """Outputs with the batch as first axis are joined; other floats are averaged over the batches,
    other integers stacked, one per batch."""
    check_names(inputs, entry)
    arrays = {name: as_array(value, f"{entry.name}: `{name}`") for name, value in inputs.items()}
    longer = [name for name, array in arrays.items() if _is_longer(array, entry, name)]
    if not longer:
        return model.call(entry.name, **arrays)
    batch = _only({entry.inputs[name].shape[0] for name in longer})
    cut = {name for name, tensor in entry.inputs.items() if tensor.shape[:1] == (batch,)}
    count = _only({len(arrays[name]) for name in cut})
    results = []
    for start in range(0, count, batch):
        # Past the end the last row is repeated; its results are cut off below.
        rows = np.minimum(np.arange(start, start + batch), count - 1)
        part = {name: array[rows] if name in cut else array for name, array in arrays.items()}
        results.append(model.call(entry.name, **part))
    return {name: _join(entry, name, results, count, batch) for name in entry.outputs}


def _is_longer(array: Array, entry: Entry, name: str) -> bool:
    shape = entry.inputs[name].shape
    return bool(shape) and array.shape[1:] == shape[1:] and array.shape[:1] != shape[:1]


def _only(sizes: set[int]) -> int:
    if len(sizes) != 1:
        raise WgccError("shape", f"the numbers of rows differ: {', '.join(map(str, sizes))}")
    return sizes.pop()


def _join(
    entry: Entry, name: str, results: list[dict[str, Array]], count: int, batch: int
) -> Array:
    shape = entry.outputs[name].shape
    parts = [result[name] for result in results]
    if shape[:1] == (batch,):
        return np.concatenate(parts)[:count]
    if not entry.outputs[name].is_float:
        return np.stack(parts)
    if count % batch:
        raise WgccError(
            "shape",
            f"`{name}` is one value per batch, and {count} rows are not a multiple of the batch "
            f"size {batch}; leave out {count % batch} rows",
            name,
        )
    return np.asarray(np.mean(parts, axis=0), parts[0].dtype)
