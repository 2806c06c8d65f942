"""Gradients of all parameters as one array, which also has them by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.errors import WgccError, did_you_mean
from wgcc_runtime.plan import WORD, Entry, Plan, Tensor

# The gradients of the parameters in the buffer `params.1` are in `grads.1`, at the same offsets.
PARAMS, GRADS = "params", "grads"

Places = Mapping[str, tuple[int, tuple[int, ...]]]


class Gradients(np.ndarray[Any, Any]):
    """One f32 array for `apply`; `gradients["l1.w"]` is the part of a parameter, in its shape."""

    places: Places = MappingProxyType({})

    def __array_finalize__(self, source: Any) -> None:
        """A part of the array, or a sum over it, has no names."""
        if source is not None and getattr(source, "shape", None) == self.shape:
            self.places = getattr(source, "places", {})

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.places:
            near = did_you_mean(key, self.places)
            raise WgccError("name", f"there is no gradient of `{key}`{near}", key)
        start, shape = self.places[key]
        size = int(np.prod(shape, dtype=np.int64))
        return self.view(np.ndarray)[start : start + size].reshape(shape)

    def keys(self) -> Iterable[str]:
        """The names of the parameters that the entry trains; so `dict(gradients)` works."""
        return self.places.keys()

    def items(self) -> Iterable[tuple[str, Array]]:
        return self.by_name().items()

    def by_name(self) -> dict[str, Array]:
        """The gradient of each parameter that the entry trains."""
        return {name: self[name] for name in self.places}


def with_names(flat: Array, plan: Plan, entry: Entry) -> Gradients:
    """The gradients of an entry with their names."""
    gradients = flat.view(Gradients)
    gradients.places = gradient_places(plan, entry)
    return gradients


def gradient_places(plan: Plan, entry: Entry) -> Places:
    """The start of each parameter's gradient in the array of all of them, and its shape."""
    assert entry.exchange is not None
    starts, at = [], 0
    for buffer, offset, size in entry.exchange.gradients:
        starts.append((plan.buffers[buffer].name, offset, offset + size, at))
        at += size // WORD
    tensors = (t for t in plan.tensors.values() if t.role == "param" and t.trainable)
    places = {}
    for tensor in tensors:
        for name, first, end, start in starts:
            if name == _beside(tensor, plan) and first <= tensor.offset < end:
                places[tensor.name] = start + (tensor.offset - first) // WORD, tensor.shape
    return places


def _beside(tensor: Tensor, plan: Plan) -> str:
    return GRADS + plan.buffers[tensor.buffer].name.removeprefix(PARAMS)
