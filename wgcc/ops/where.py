"""where(cond, a, b): a where cond holds, else b."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Node, TensorType, Value
from wgcc.lazy_numpy import np
from wgcc.ops.checks import check_dtype, check_same
from wgcc.ops.formula import Term
from wgcc.ops.pointwise import SHAPES
from wgcc.ops.registry import Op, Pointwise, Sample, ShapeError


def infer(cond: TensorType, a: TensorType, b: TensorType) -> TensorType:
    check_dtype("the condition of where", cond, ("bool",))
    check_same("where", a, b)
    if cond.shape != a.shape:
        raise ShapeError(f"the operands of where differ: {cond} chooses between {a} and {b}")
    return a


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # da = g where cond, else 0; db = 0 where cond, else g
    (g,) = gs
    if g is None or node.output.dtype not in FLOATS:
        return [None, None, None]
    cond, gradient = Term(b, node.inputs[0]), Term(b, g)
    zero = gradient.like(0)
    return [None, cond.choose(gradient, zero).value, cond.choose(zero, gradient).value]


def _samples() -> list[Sample]:
    floats = [Sample([TensorType(s, "bool"), s, s], integers=(0, 1)) for s in SHAPES]
    others = [
        Sample(
            [TensorType((65,), "bool"), TensorType((65,), d), TensorType((65,), d)],
            integers=(0, 1),
            differentiable=False,
        )
        for d in ("i32", "u32", "i8", "u8", "bool")
    ]
    return floats + others


OPS = (
    Op(
        "where",
        infer,
        lambda cond, a, b: np.where(cond, a, b),
        Pointwise("select({2}, {1}, {0})"),
        grad,
        _samples(),
    ),
)
