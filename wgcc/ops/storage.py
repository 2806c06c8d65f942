"""flat(x, …; words): tensors of one arena as one long vector with zeros between them.

The scheduler creates it where many tensors are read at once; it is a view, not a kernel.

pack(a, b, c, d): four elements of one byte each as a word, the first one lowest.

Kernels write the bytes that callers see as whole words, so that no two threads write to one word.

copy(x): the same elements stored separately, where the scheduler needs that.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.dtypes import PACKED
from wgcc.ir.graph import Builder, Node, TensorType, Value
from wgcc.ir.places import ALIGNMENT, round_up
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype, check_same
from wgcc.ops.compare import no_grad
from wgcc.ops.dtypes import wgsl_type
from wgcc.ops.pointwise import samples_of
from wgcc.ops.registry import Op, Pointwise, Sample, Special


def infer_flat(*parts: TensorType, words: int) -> TensorType:
    return TensorType((words,), parts[0].dtype)


def reference_flat(*parts: Array, words: int) -> Array:
    flat, at = np.zeros(words, parts[0].dtype), 0
    for part in parts:
        flat[at : at + part.size] = part.reshape(-1)
        at += round_up(part.size, ALIGNMENT)
    return flat


# An element as the lowest byte of a u32, by its type in WGSL.
_BYTES = {"bool": "select(0u, 1u, {%d})", "i32": "(bitcast<u32>({%d}) & 255u)", "u32": "{%d}"}


def infer_pack(*parts: TensorType) -> TensorType:
    check_same("pack", *parts)
    check_dtype("pack", parts[0], PACKED)
    return TensorType(parts[0].shape, "u32")


def reference_pack(*parts: Array) -> Array:
    found = np.zeros(parts[0].shape, np.uint32)
    for number, part in enumerate(parts):
        found |= part.astype(np.uint8).astype(np.uint32) << np.uint32(8 * number)
    return found


def wgsl(node: Node) -> str:
    byte = _BYTES[wgsl_type(node.inputs[0].dtype)]
    first, *others = (byte % number for number in range(4))
    return " | ".join([first, *(f"({x} << {8 * i}u)" for i, x in enumerate(others, 1))])


def infer_copy(x: TensorType) -> TensorType:
    return x


def reference_copy(x: Array) -> Array:
    return np.asarray(x)


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g
    return list(gs)


OPS = (
    Op("flat", infer_flat, reference_flat, Special("flat")),
    Op("pack", infer_pack, reference_pack, Pointwise(wgsl), no_grad, samples_of(4, PACKED)),
    Op(
        "copy",
        infer_copy,
        reference_copy,
        Pointwise("{0}"),
        grad,
        [
            Sample([(65,)]),
            Sample([()]),
            Sample([TensorType((3, 5), "bool")], differentiable=False),
            Sample([TensorType((3, 5), PACKED[0])], differentiable=False),
        ],
        identity=True,
    ),
)
