"""flat(x, …; words): tensors of one arena as one long vector with zeros between them.

The scheduler creates it where many tensors are read at once; it is a view, not a kernel.
"""

from __future__ import annotations

from wgcc.ir.graph import TensorType
from wgcc.ir.places import ALIGNMENT, round_up
from wgcc.lazy_numpy import Array, np
from wgcc.ops.registry import Op, Special


def infer(*parts: TensorType, words: int) -> TensorType:
    return TensorType((words,), parts[0].dtype)


def reference(*parts: Array, words: int) -> Array:
    flat, at = np.zeros(words, parts[0].dtype), 0
    for part in parts:
        flat[at : at + part.size] = part.reshape(-1)
        at += round_up(part.size, ALIGNMENT)
    return flat


OPS = (Op("flat", infer, reference, Special("flat")),)
