"""Activation functions and erf: tanh sigmoid relu elu gelu silu mish softplus, as in PyTorch."""

from __future__ import annotations

import math
from math import erf, pi, sqrt

from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term, unary
from wgcc.ops.registry import Sample

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


OPS = (
    # dx = g (1 - y²)
    unary(
        "tanh",
        "wg_tanh({0})",
        lambda x: np.tanh(x),
        lambda g, x, y: g * (1 - y.square()),
        functions=("tanh",),
        cheap=False,
        samples=WIDE,
        number=math.tanh,
    ),
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
