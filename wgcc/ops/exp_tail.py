"""exp_tail(x; order): (exp(x) - the first `order` terms of its series) / x^order.

Order 0 is exp(x), order 1 (exp(x) - 1) / x, which is 1 at 0: what a linear system that decays with
rate x gains from a constant input in one step. Every order is smooth at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype
from wgcc.ops.formula import Term
from wgcc.ops.registry import Op, Pointwise, Sample, ShapeError

# So many terms are exact in double precision where the series is used.
_TERMS = 40


def infer(x: TensorType, order: int) -> TensorType:
    check_dtype("exp_tail", x, ("f32",))
    if order < 0:
        raise ShapeError(f"exp_tail: the order must not be negative, but is {order}")
    return x


def reference(x: Array, order: int) -> Array:
    edge = max(order, 1)
    # Large factorials do not fit into f32.
    wide = np.asarray(x, np.float64)
    near = sum(np.clip(wide, -edge, edge) ** j / factorial(j + order) for j in range(_TERMS))
    far_x = np.where(np.abs(x) < edge, edge, x)
    far = np.exp(far_x)
    for i in range(order):
        far = (far - 1 / factorial(i)) / far_x
    return np.where(np.abs(x) < edge, near, far).astype(x.dtype)


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g (y - order · the next order)
    (g,), order = gs, int(node.attrs["order"])
    if g is None:
        return [None]
    slope = Term(b, node.output)
    if order:
        slope = slope - Term(b, node.inputs[0]).apply("exp_tail", order=order + 1) * float(order)
    return [(Term(b, g) * slope).value]


OPS = (
    Op(
        "exp_tail",
        infer,
        reference,
        Pointwise(lambda node: f"wg_exp_tail({{0}}, {node.attrs['order']}u)", ("exp_tail",), False),
        grad,
        [
            Sample([(65,)], {"order": order}, low, high)
            for order in range(4)
            for low, high in ((-3.0, 3.0), (-1e-3, 1e-3), (-40.0, -1.0))
        ],
    ),
)
