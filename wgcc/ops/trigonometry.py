"""tan asin acos atan atan2 sinh cosh; sin and cos are in `unary.py`.

WGSL has these functions, too, but adapters may be wrong by thousands of units in the last place.
"""

from __future__ import annotations

import math

from wgcc.lazy_numpy import np
from wgcc.ops.formula import Term
from wgcc.ops.pointwise import binary, unary
from wgcc.ops.registry import Sample


def atan2_derivative(g: Term, y: Term, x: Term, angle: Term) -> tuple[Term, Term]:
    # dy = g x / (x² + y²), dx = -g y / (x² + y²), and 0 at the origin
    squares = x.square() + y.square()
    scaled = squares.equals(0).choose(squares.like(0), g / squares)
    return scaled * x, -(scaled * y)


OPS = (
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
)
