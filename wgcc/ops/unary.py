"""Arithmetic of one operand: signs, rounding, square, reciprocal, roots, exp, log, sin, cos.

tan asin acos atan atan2 sinh cosh.

WGSL has these functions, too, but adapters may be wrong by thousands of units in the last place.

exp_tail(x; order): (exp(x) - the first `order` terms of its series) / x^order.

Order 0 is exp(x), order 1 (exp(x) - 1) / x, which is 1 at 0: what a linear system that decays with
rate x gains from a constant input in one step. Every order is smooth at 0.

Activation functions and erf: tanh sigmoid relu elu gelu silu mish softplus, as in PyTorch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from math import erf, factorial, pi, sqrt

from wgcc.ir.dtypes import NUMBERS, SIGNED
from wgcc.ir.graph import DTYPES, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term, UnaryDerivative, binary, unary
from wgcc.ops.registry import Op, Pointwise, Sample, ShapeError, check_dtype

BETWEEN_INTEGERS = [
    Sample([(3,)], {}, at, at, differentiable=False) for at in (-1.5, -0.5, 0.5, 2.5)
]


NEAR_ZERO = [Sample([(65,)], low=-1e-3, high=1e-3)]
FAR_AWAY = [Sample([(257,)], low=-1e4, high=1e4)]


def transcendental(
    name: str,
    derivative: UnaryDerivative,
    uses: tuple[str, ...] = (),
    *,
    low: float = -2.0,
    high: float = 2.0,
    samples: Sequence[Sample] = (),
) -> Op:
    """A function that Python's math and numpy have, and WGSL as `wg_NAME` in `wgsl/NAME.wgsl`.

    That file calls functions of the files that it `uses`.
    """
    in_numpy = re.sub("^a(?=sin|cos|tan)", "arc", name)
    return unary(
        name,
        f"wg_{name}({{0}})",
        lambda x: getattr(np, in_numpy)(x),
        derivative,
        functions=(*uses, name),
        low=low,
        high=high,
        cheap=False,
        samples=samples,
        number=getattr(math, name),
    )


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


UNARY_OPS = (
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
    transcendental("expm1", lambda g, x, y: g * (y + 1), samples=NEAR_ZERO),
    # dx = g / x
    transcendental("log", lambda g, x, y: g / x, low=0.1, high=9.0),
    # dx = g / (1 + x)
    transcendental(
        "log1p", lambda g, x, y: g / (x + 1), ("log",), low=-0.9, high=9.0, samples=NEAR_ZERO
    ),
    # dx = g cos x
    transcendental("sin", lambda g, x, y: g * x.apply("cos"), ("turn",), samples=FAR_AWAY),
    # dx = -g sin x
    transcendental("cos", lambda g, x, y: -(g * x.apply("sin")), ("turn",), samples=FAR_AWAY),
    unary("stop_grad", "{0}", lambda x: x, dtypes=DTYPES, identity=True),
    # dx = g (1 + y²)
    transcendental("tan", lambda g, x, y: g * (y.square() + 1), ("turn",), low=-1.2, high=1.2),
    # dx = g / √(1 - x²)
    transcendental(
        "asin", lambda g, x, y: g * (1 - x.square()).apply("rsqrt"), low=-0.95, high=0.95
    ),
    # dx = -g / √(1 - x²)
    transcendental(
        "acos",
        lambda g, x, y: -(g * (1 - x.square()).apply("rsqrt")),
        ("asin",),
        low=-0.95,
        high=0.95,
    ),
    # dx = g / (1 + x²)
    transcendental("atan", lambda g, x, y: g / (x.square() + 1), samples=FAR_AWAY),
    # dx = g cosh x
    transcendental("sinh", lambda g, x, y: g * x.apply("cosh"), ("expm1",), samples=NEAR_ZERO),
    # dx = g sinh x
    transcendental("cosh", lambda g, x, y: g * x.apply("sinh")),
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


# Large enough that a careless use of exp would overflow.
WIDE = [Sample([(257,)], low=-30.0, high=30.0, differentiable=False)]


def gelu_derivative(g: Term, x: Term, y: Term) -> Term:
    # dx = g (Φ(x) + x φ(x)), φ the normal density and Φ its integral
    cdf = ((x * sqrt(0.5)).apply("erf") + 1) * 0.5
    density = (x.square() * -0.5).exp() * (1 / sqrt(2 * pi))
    return g * (cdf + x * density)


def elu_derivative(g: Term, x: Term, y: Term) -> Term:
    # The exponential of a large x that is not used would be infinite, and 0 times it NaN.
    return x.exceeds(0).choose(g, g * x.apply("minimum", x.like(0)).exp())


def silu_derivative(g: Term, x: Term, y: Term) -> Term:
    # dx = g s (1 + x (1 - s)), s = sigmoid(x)
    s = x.apply("sigmoid")
    return g * (s * (x * (1 - s) + 1))


def mish_derivative(g: Term, x: Term, y: Term) -> Term:
    # dx = g (t + x s (1 - t²)), t = tanh(softplus(x)), s = sigmoid(x)
    t = x.apply("softplus").apply("tanh")
    return g * (t + x * (x.apply("sigmoid") * (1 - t.square())))


def mish_number(x: float) -> float:
    return x * math.tanh(softplus_number(x))


def erf_array(x: Array) -> Array:
    """numpy has no erf; the standard library's is exact and fast enough for tests."""
    return np.asarray(np.vectorize(erf, otypes=[float])(x), x.dtype)


def elu_array(x: Array) -> Array:
    return np.asarray(np.where(x > 0, x, np.expm1(np.minimum(x, 0))))


def sigmoid_array(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def sigmoid_number(x: float) -> float:
    return 0.5 * (1.0 + math.tanh(0.5 * x))


def softplus_number(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


ACTIVATIONS_OPS = (
    # dx = g (1 - y²)
    transcendental("tanh", lambda g, x, y: g * (1 - y.square()), samples=WIDE),
    # dx = g y (1 - y)
    unary(
        "sigmoid",
        "wg_sigmoid({0})",
        sigmoid_array,
        lambda g, x, y: g * (y * (1 - y)),
        functions=("sigmoid",),
        cheap=False,
        samples=WIDE,
        number=sigmoid_number,
    ),
    # dx = g where y > 0, so 0 at 0
    unary(
        "relu",
        "wg_relu({0})",
        lambda x: np.maximum(x, 0),
        lambda g, x, y: y.exceeds(0).choose(g, 0),
        functions=("relu",),
        number=lambda x: max(x, 0.0),
    ),
    # dx = g where x > 0, else g exp(x)
    unary(
        "elu",
        "wg_elu({0})",
        elu_array,
        elu_derivative,
        functions=("elu", "expm1"),
        cheap=False,
        samples=WIDE,
    ),
    unary(
        "gelu",
        "wg_gelu({0})",
        lambda x: 0.5 * x * (1 + erf_array(x * sqrt(0.5))),
        gelu_derivative,
        functions=("erf", "gelu"),
        cheap=False,
        samples=WIDE,
    ),
    unary(
        "silu",
        "({0} * {sigmoid})",
        lambda x: x * sigmoid_array(x),
        silu_derivative,
        part="sigmoid",
        cheap=False,
        samples=WIDE,
        number=lambda x: x * sigmoid_number(x),
    ),
    unary(
        "mish",
        "({0} * wg_tanh(wg_softplus({0})))",
        lambda x: x * np.tanh(np.logaddexp(0, x)),
        mish_derivative,
        functions=("log", "log1p", "softplus", "tanh"),
        cheap=False,
        samples=WIDE,
        number=mish_number,
    ),
    # dx = g sigmoid(x)
    unary(
        "softplus",
        "wg_softplus({0})",
        lambda x: np.logaddexp(0, x),
        lambda g, x, y: g * x.apply("sigmoid"),
        functions=("log", "log1p", "softplus"),
        cheap=False,
        samples=WIDE,
        number=softplus_number,
    ),
    # dx = g 2/√π exp(-x²)
    unary(
        "erf",
        "wg_erf({0})",
        erf_array,
        lambda g, x, y: g * ((-x.square()).exp() * (2 / sqrt(pi))),
        functions=("erf",),
        cheap=False,
        samples=WIDE,
        number=math.erf,
    ),
)

OPS = (*UNARY_OPS, *ACTIVATIONS_OPS)
