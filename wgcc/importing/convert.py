"""Converts a file's arrays to the model's, by a map, and refuses those that do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wgcc.errors import WgError
from wgcc.importing.propose import Pair
from wgcc.ir.dtypes import DTYPE_TABLE, FLOATS, INTEGER_RANGES
from wgcc.ir.places import is_own_state
from wgcc.ir.program import Program, Tensor
from wgcc.lazy_numpy import Array, np


def own_tensors(program: Program) -> dict[str, Tensor]:
    """The tensors that a weights file can fill: parameters and the model's own state."""
    state = {n: t for n, t in program.state.items() if is_own_state(n)}
    return {**program.params, **state}


def convert(
    pairs: Iterable[Pair], tensors: Mapping[str, Tensor], arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """The arrays by the names of the model's tensors."""
    return {
        pair.target: _converted(pair, tensors[pair.target], arrays[pair.source]) for pair in pairs
    }


def _converted(pair: Pair, tensor: Tensor, array: Array) -> Array:
    shape, way = tuple(array.shape), pair.transform.text() or "as it is"
    if not pair.transform.fits(shape, tensor.type.shape):
        becomes = pair.transform.shape(shape)
        text = f" cannot be {way}" if becomes is None else f", {way}, is {list(becomes)}"
        raise WgError(f"{pair.source} {list(shape)}{text}, but {pair.target} is {tensor.type}")
    result = np.ascontiguousarray(pair.transform.apply(array)).reshape(tensor.type.shape)
    return _typed(pair, pair.transform.in_order(result), tensor.type.dtype)


def _typed(pair: Pair, array: Array, dtype: str) -> Array:
    """Floats of any width become f32; integers stay integers."""
    held = DTYPE_TABLE[dtype].memory
    if dtype in FLOATS:
        if array.dtype.kind not in "fiub":
            raise WgError(f"{pair.source} holds {array.dtype}, but {pair.target} holds {dtype}")
        return array.astype(held)
    if array.dtype.kind not in "iub":
        raise WgError(f"{pair.source} holds {array.dtype}, but {pair.target} holds {dtype}")
    low, high = INTEGER_RANGES[dtype]
    if array.size and not low <= array.min() <= array.max() <= high:
        text = f"{pair.source} holds {array.min()} to {array.max()}, but {pair.target} is {dtype}"
        raise WgError(f"{text} ({low} to {high})")
    return array.astype(held)
