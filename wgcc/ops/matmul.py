"""matmul(a, b): matrices [M, K] @ [K, N], or a batch of them [Z, M, K] @ [Z, K, N]."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype
from wgcc.ops.registry import Op, Sample, ShapeError, SharedAxis, Special


def infer(a: TensorType, b: TensorType) -> TensorType:
    check_dtype("matmul", a, FLOATS)
    if a.rank not in (2, 3) or a.rank != b.rank:
        raise ShapeError(f"matmul takes two matrices or two batches of them, not {a} and {b}")
    if a.dtype != b.dtype:
        raise ShapeError(f"the operands of matmul differ: {a} and {b}")
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"matmul: the inner sizes of {a} and {b} differ")
    if a.shape[:-2] != b.shape[:-2]:
        raise ShapeError(f"matmul: {a} and {b} are batches of different sizes")
    return TensorType((*a.shape[:-1], b.shape[-1]), a.dtype)


def reference(a: Array, b: Array) -> Array:
    return np.asarray(np.matmul(a, b))


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # da = g bᵀ, db = aᵀ g
    (g,), (left, right) = gs, node.inputs
    if g is None:
        return [None, None]
    swap = (1, 0) if g.type.rank == 2 else (0, 2, 1)
    right_t = b.apply("transpose", right, perm=swap)
    left_t = b.apply("transpose", left, perm=swap)
    return [b.apply("matmul", g, right_t), b.apply("matmul", left_t, g)]


def separate(node: Node) -> list[SharedAxis]:
    last = node.output.type.rank - 1
    batch: list[SharedAxis] = [((0, 0), (0,))] if last == 2 else []
    return [*batch, ((last - 1, None), (last - 1,)), ((None, last), (last,))]


def effort(node: Node) -> int:
    return node.output.type.size * (node.inputs[0].shape[-1] // 8)


_SIZES = ((1, 1, 1), (3, 5, 2), (17, 9, 11), (1, 65, 1), (64, 7, 63), (65, 33, 31), (2, 257, 3))

OPS = (
    Op(
        "matmul",
        infer,
        reference,
        Special("matmul", narrow=True),
        grad,
        [
            *(Sample([(m, k), (k, n)]) for m, k, n in _SIZES),
            Sample([(1, 3, 5), (1, 5, 2)]),
            Sample([(3, 7, 5), (3, 5, 9)]),
        ],
        effort=effort,
        separate=separate,
    ),
)
