"""Calls of an entry that takes microseconds, with arrays that need no conversion.

Whatever else a caller may pass is left to the way that all entries go: it converts, or says what is
wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from wgcc_runtime.arrays import CALLER_TYPES, INTEGER_RANGES, MEMORY_TYPES, Array
from wgcc_runtime.plan import Entry, Plan, Range, Tensor

# Checks of larger inputs take longer than the conversion that is saved.
MOST_ELEMENTS = 4096


class QuickCall:
    """`buffers` are those of the machine; `call` runs the entry on what is in them."""

    def __init__(
        self, plan: Plan, entry: str, buffers: Sequence[Array], call: Callable[[], None]
    ) -> None:
        spec, self._call = plan.entries[entry], call
        self._inputs = [
            (name, _Slot(tensor, buffers, spec.ranges.get(name)))
            for name, tensor in spec.inputs.items()
        ]
        self._outputs = [
            (name, _view(tensor, buffers), CALLER_TYPES[tensor.dtype])
            for name, tensor in spec.outputs.items()
        ]

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Array] | None:
        """The outputs; None if the inputs need conversion, or have an error."""
        if len(inputs) != len(self._inputs):
            return None
        for name, slot in self._inputs:
            if not slot.put(inputs.get(name)):
                return None
        self._call()
        return {name: view.astype(dtype) for name, view, dtype in self._outputs}


def can_be_quick(entry: Entry) -> bool:
    """Whether a call only writes inputs, runs, and reads outputs."""
    if entry.training or entry.guard or entry.range_guard or entry.captures:
        return False
    return all(t.dtype != "f16" and 0 < t.size <= MOST_ELEMENTS for t in entry.inputs.values())


class _Slot:
    """The place of an input in memory."""

    def __init__(self, tensor: Tensor, buffers: Sequence[Array], allowed: Range | None) -> None:
        self._view = _view(tensor, buffers)
        self._flat, self._shape = self._view.reshape(-1), tensor.shape
        self._dtype = np.dtype(CALLER_TYPES[tensor.dtype])
        self._is_float, self._is_checked = tensor.is_float, not tensor.any_float
        low, high = INTEGER_RANGES.get(tensor.dtype, (0, 0))
        # Searching bytes is faster than `all`.
        self._flag_bytes = bytearray(tensor.size)
        self._flags = np.frombuffer(self._flag_bytes, np.bool_)
        self._range = allowed or Range(low, high, None)

    def put(self, array: Any) -> bool:
        """Writes an array, unless it is of another type or shape, or holds a wrong number."""
        if type(array) is not np.ndarray or array.dtype != self._dtype:
            return False
        if array.shape != self._shape:
            return False
        self._view[...] = array
        return not self._is_checked or self._is_sound()

    def _is_sound(self) -> bool:
        flat = self._flat
        if self._is_float:
            np.isfinite(flat, self._flags)
            return 0 not in self._flag_bytes
        return bool(self._range.low <= flat.min() and flat.max() <= self._range.high)


def _view(tensor: Tensor, buffers: Sequence[Array]) -> Array:
    data = buffers[tensor.buffer][tensor.offset : tensor.offset + tensor.bytes]
    words: Array = data.view(MEMORY_TYPES[tensor.dtype])[: tensor.size]
    return words.reshape(tensor.shape)
