"""Arithmetic of one operand: signs, rounding, square, reciprocal, roots, exp, log, sin, cos.

tan asin acos atan atan2 sinh cosh.

WGSL has these functions, too, but adapters may be wrong by thousands of units in the last place.

exp_tail(x; order): (exp(x) - the first `order` terms of its series) / x^order.

Order 0 is exp(x), order 1 (exp(x) - 1) / x, which is 1 at 0: what a linear system that decays with
rate x gains from a constant input in one step. Every order is smooth at 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import factorial

from wgcc.ir.dtypes import NUMBERS, SIGNED
from wgcc.ir.graph import DTYPES, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype
from wgcc.ops.formula import Term, binary, unary
from wgcc.ops.registry import Op, Pointwise, Sample, ShapeError

BETWEEN_INTEGERS = [
    Sample([(3,)], {}, at, at, differentiable=False) for at in (-1.5, -0.5, 0.5, 2.5)
]


def atan2_derivative(g: Term, y: Term, x: Term, angle: Term) -> tuple[Term, Term]:
    # dy = g x / (x² + y²), dx = -g y / (x² + y²), and 0 at the origin
    squares = x.square() + y.square()
    scaled = squares.equals(0).choose(squares.like(0), g / squares)
    return scaled * x, -(scaled * y)


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
    # dx = -g
    unary("neg", "(-{0})", lambda x: np.negative(x), lambda g, x, y: -g, dtypes=SIGNED),
    # dx = g sign(x), and so 0 at 0
    unary(
        "abs",
        "abs({0})",
        lambda x: np.abs(x),
        lambda g, x, y: g * x.apply("sign"),
        dtypes=SIGNED,
        number=abs,
    ),
    unary(
        "sign",
        "sign({0})",
        lambda x: np.sign(x),
        dtypes=SIGNED,
        number=lambda x: float((x > 0) - (x < 0)),
    ),
    unary("floor", "floor({0})", lambda x: np.floor(x), number=math.floor),
    unary("ceil", "ceil({0})", lambda x: np.ceil(x), number=math.ceil),
    unary("trunc", "trunc({0})", lambda x: np.trunc(x), number=math.trunc),
    # Halves go to the even neighbour, in Python as well.
    unary("round", "round({0})", lambda x: np.rint(x), number=round, samples=BETWEEN_INTEGERS),
    # dx = 2 g x
    unary(
        "square",
        "({0} * {0})",
        lambda x: np.square(x),
        lambda g, x, y: g * (x * 2),
        dtypes=NUMBERS,
        number=lambda x: x * x,
    ),
    # dx = -g y²
    unary(
        "reciprocal",
        "(1.0f / {0})",
        lambda x: np.reciprocal(x),
        lambda g, x, y: -(g * y.square()),
        low=0.3,
        samples=[Sample([(65,)], low=-3.0, high=-0.3)],
    ),
    # dx = g / 2y
    unary(
        "sqrt",
        "sqrt({0})",
        lambda x: np.sqrt(x),
        lambda g, x, y: g * 0.5 / y,
        low=0.1,
        high=9.0,
        number=math.sqrt,
    ),
    # dx = -g y³ / 2
    unary(
        "rsqrt",
        "inverseSqrt({0})",
        lambda x: 1 / np.sqrt(x),
        lambda g, x, y: g * (y.square() * y * -0.5),
        low=0.1,
        high=9.0,
        number=lambda x: 1.0 / math.sqrt(x),
    ),
    # dx = g y
    unary(
        "exp",
        "exp({0})",
        lambda x: np.exp(x),
        lambda g, x, y: g * y,
        cheap=False,
        samples=[Sample([(257,)], low=-80.0, high=1.0)],
        number=math.exp,
    ),
    # dx = g (y + 1)
    unary(
        "expm1",
        "wg_expm1({0})",
        lambda x: np.expm1(x),
        lambda g, x, y: g * (y + 1),
        functions=("expm1",),
        cheap=False,
        samples=[Sample([(65,)], low=-1e-3, high=1e-3)],
        number=math.expm1,
    ),
    # dx = g / x
    unary(
        "log",
        "wg_log({0})",
        lambda x: np.log(x),
        lambda g, x, y: g / x,
        functions=("log",),
        low=0.1,
        high=9.0,
        cheap=False,
        number=math.log,
    ),
    # dx = g / (1 + x)
    unary(
        "log1p",
        "wg_log1p({0})",
        lambda x: np.log1p(x),
        lambda g, x, y: g / (x + 1),
        functions=("log", "log1p"),
        low=-0.9,
        high=9.0,
        cheap=False,
        samples=[Sample([(65,)], low=-1e-3, high=1e-3)],
        number=math.log1p,
    ),
    # dx = g cos x
    unary(
        "sin",
        "wg_sin({0})",
        lambda x: np.sin(x),
        lambda g, x, y: g * x.apply("cos"),
        functions=("turn", "sin"),
        cheap=False,
        samples=[Sample([(257,)], low=-1e4, high=1e4)],
        number=math.sin,
    ),
    # dx = -g sin x
    unary(
        "cos",
        "wg_cos({0})",
        lambda x: np.cos(x),
        lambda g, x, y: -(g * x.apply("sin")),
        functions=("turn", "cos"),
        cheap=False,
        samples=[Sample([(257,)], low=-1e4, high=1e4)],
        number=math.cos,
    ),
    unary("stop_grad", "{0}", lambda x: x, dtypes=DTYPES, identity=True),
    # dx = g (1 + y²)
    unary(
        "tan",
        "wg_tan({0})",
        lambda x: np.tan(x),
        lambda g, x, y: g * (y.square() + 1),
        functions=("turn", "tan"),
        low=-1.2,
        high=1.2,
        cheap=False,
        number=math.tan,
    ),
    # dx = g / √(1 - x²)
    unary(
        "asin",
        "wg_asin({0})",
        lambda x: np.arcsin(x),
        lambda g, x, y: g * (1 - x.square()).apply("rsqrt"),
        functions=("asin",),
        low=-0.95,
        high=0.95,
        cheap=False,
        number=math.asin,
    ),
    # dx = -g / √(1 - x²)
    unary(
        "acos",
        "wg_acos({0})",
        lambda x: np.arccos(x),
        lambda g, x, y: -(g * (1 - x.square()).apply("rsqrt")),
        functions=("asin", "acos"),
        low=-0.95,
        high=0.95,
        cheap=False,
        number=math.acos,
    ),
    # dx = g / (1 + x²)
    unary(
        "atan",
        "wg_atan({0})",
        lambda x: np.arctan(x),
        lambda g, x, y: g / (x.square() + 1),
        functions=("atan",),
        cheap=False,
        samples=[Sample([(257,)], low=-1e4, high=1e4)],
        number=math.atan,
    ),
    # dx = g cosh x
    unary(
        "sinh",
        "wg_sinh({0})",
        lambda x: np.sinh(x),
        lambda g, x, y: g * x.apply("cosh"),
        functions=("expm1", "sinh"),
        cheap=False,
        samples=[Sample([(65,)], low=-1e-3, high=1e-3)],
        number=math.sinh,
    ),
    # dx = g sinh x
    unary(
        "cosh",
        "wg_cosh({0})",
        lambda x: np.cosh(x),
        lambda g, x, y: g * x.apply("sinh"),
        functions=("cosh",),
        cheap=False,
        number=math.cosh,
    ),
    binary(
        "atan2",
        "wg_atan2({0}, {1})",
        lambda y, x: np.arctan2(y, x),
        atan2_derivative,
        functions=("atan", "atan2"),
        cheap=False,
    ),
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
