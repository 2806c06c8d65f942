"""Arithmetic of one operand: signs, rounding, square, reciprocal, roots, exp, log, sin, cos."""

from __future__ import annotations

import math

from wgcc.ir.dtypes import NUMBERS
from wgcc.ir.graph import DTYPES
from wgcc.lazy_numpy import np
from wgcc.ops.pointwise import unary
from wgcc.ops.registry import Sample

SIGNED = ("f32", "f16", "i32", "i8")
HALVES = [Sample([(3,)], {}, at, at, differentiable=False) for at in (-1.5, -0.5, 0.5, 2.5)]

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
    unary("round", "round({0})", lambda x: np.rint(x), number=round, samples=HALVES),
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
)
