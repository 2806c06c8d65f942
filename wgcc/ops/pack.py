"""pack(a, b, c, d): four elements of one byte each as a word, the first one lowest.

Kernels write the bytes that callers see as whole words, so that no two threads write to one word.
"""

from __future__ import annotations

from wgcc.ir.dtypes import PACKED
from wgcc.ir.graph import Node, TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype, check_same
from wgcc.ops.compare import no_grad
from wgcc.ops.pointwise import samples_of
from wgcc.ops.registry import Op, Pointwise

# An element as the lowest byte of a u32.
_BYTES = {"bool": "select(0u, 1u, {%d})", "i8": "(bitcast<u32>({%d}) & 255u)", "u8": "{%d}"}


def infer(*parts: TensorType) -> TensorType:
    check_same("pack", *parts)
    check_dtype("pack", parts[0], PACKED)
    return TensorType(parts[0].shape, "u32")


def reference(*parts: Array) -> Array:
    found = np.zeros(parts[0].shape, np.uint32)
    for number, part in enumerate(parts):
        found |= part.astype(np.uint8).astype(np.uint32) << np.uint32(8 * number)
    return found


def wgsl(node: Node) -> str:
    byte = _BYTES[node.inputs[0].dtype]
    first, *others = (byte % number for number in range(4))
    return " | ".join([first, *(f"({x} << {8 * i}u)" for i, x in enumerate(others, 1))])


OPS = (Op("pack", infer, reference, Pointwise(wgsl), no_grad, samples_of(4, PACKED)),)
