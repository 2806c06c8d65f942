"""sum_squares(g*n; n): the sum of the squares of all elements of n tensors, an f32 scalar."""

from __future__ import annotations

from wgcc.ir.builder import Builder
from wgcc.ir.graph import TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype
from wgcc.ops.registry import Op, ReduceMany, Sample, ShapeError


def infer(*tensors: TensorType, n: int) -> TensorType:
    if n < 1 or len(tensors) != n:
        raise ShapeError(f"sum_squares takes {n} tensors, not {len(tensors)}")
    for tensor in tensors:
        check_dtype("sum_squares", tensor, ("f32",))
    return TensorType((), "f32")


def reference(*tensors: Array, n: int) -> Array:
    return np.asarray(sum(np.square(tensor).sum() for tensor in tensors))


def flat(b: Builder, x: Value) -> Value:
    return b.apply("sum", b.apply("square", x), axes=(0,))


OPS = (
    Op(
        "sum_squares",
        infer,
        reference,
        ReduceMany(flat, "add"),
        samples=[
            Sample([()], {"n": 1}, differentiable=False),
            Sample([(65,), (3, 5), (), (257,)], {"n": 4}, differentiable=False),
            Sample([(64, 63), (2, 3, 4, 5)], {"n": 2}, differentiable=False),
        ],
    ),
)
