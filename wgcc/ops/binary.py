"""Arithmetic of two operands of equal type: add sub mul div mod pow maximum minimum.

Whole numbers divide as in Python: the quotient is rounded down and the remainder has the divisor's
sign, so that x = (x / z) z + x % z. That holds for every x and z: x / 0 is 0 and x % 0 is x. Like
sums and products, the one quotient that i32 cannot hold (of -2³¹ and -1) wraps around, to -2³¹.
"""

from __future__ import annotations

from collections.abc import Callable

from wgcc.ir.dtypes import INTEGER_RANGES, INTEGERS, NUMBERS, SIGNED
from wgcc.ir.graph import FLOATS, Node, TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.dtypes import wgsl_type
from wgcc.ops.formula import Term
from wgcc.ops.pointwise import binary
from wgcc.ops.registry import Sample


def div_array(x: Array, z: Array) -> Array:
    if np.issubdtype(x.dtype, np.floating):
        return np.asarray(x / z)
    # In 64 bits nothing overflows.
    quotient = x.astype(np.int64) // np.where(z == 0, 1, z.astype(np.int64))
    return np.asarray(np.where(z == 0, 0, quotient)).astype(x.dtype)


def mod_array(x: Array, z: Array) -> Array:
    """The remainder that has the divisor's sign."""
    if np.issubdtype(x.dtype, np.floating):
        return np.mod(x, z)
    return np.asarray(x - div_array(x, z) * z)


def div_wgsl(node: Node) -> str:
    return "({0} / {1})" if node.output.dtype in FLOATS else _whole("div", node)


def mod_wgsl(node: Node) -> str:
    return "wg_mod({0}, {1})" if node.output.dtype in FLOATS else _whole("mod", node)


def _whole(name: str, node: Node) -> str:
    return f"wg_{name}_{wgsl_type(node.output.dtype)}({{0}}, {{1}})"


def division_functions(name: str) -> Callable[[Node], tuple[str, ...]]:
    """The files of the functions that a quotient or remainder calls."""

    def functions(node: Node) -> tuple[str, ...]:
        dtype = node.output.dtype
        if dtype in FLOATS:
            return ("mod",) if name == "mod" else ()
        return (f"{name}_{wgsl_type(dtype)}",)

    return functions


def extreme_wgsl(name: str) -> Callable[[Node], str]:
    """The larger or smaller one; of floats, NaN if one of them is."""
    return lambda node: f"{'wg_' * (node.output.dtype in FLOATS)}{name}({{0}}, {{1}})"


def extreme_functions(name: str) -> Callable[[Node], tuple[str, ...]]:
    return lambda node: (name,) if node.output.dtype in FLOATS else ()


def mod_derivative(g: Term, x: Term, z: Term, y: Term) -> tuple[Term, Term]:
    # y = x - z floor(x/z): dx = g, dz = -g floor(x/z)
    return g, -(g * (x / z).apply("floor"))


def pow_derivative(g: Term, x: Term, z: Term, y: Term) -> tuple[Term, Term]:
    # dx = g z x^(z-1), 0 where x = z = 0; dz = g y log x, 0 where x <= 0
    nothing = x.equals(0).apply("logical_and", z.equals(0))
    dx = z * nothing.choose(x.like(1), x).apply("pow", z - 1)
    positive = x.exceeds(0)
    log_x = positive.choose(x, 1).apply("log")
    return g * dx, g * positive.choose(y * log_x, 0)


def maximum_derivative(g: Term, x: Term, z: Term, y: Term) -> tuple[Term, Term]:
    # dx = g where x > z, g/2 where x = z; dz the rest of g
    dx = x.exceeds(z).choose(g, x.equals(z).choose(g * 0.5, 0))
    return dx, g - dx


def minimum_derivative(g: Term, x: Term, z: Term, y: Term) -> tuple[Term, Term]:
    # dz = g where x > z, g/2 where x = z; dx the rest of g
    dz = x.exceeds(z).choose(g, x.equals(z).choose(g * 0.5, 0))
    return g - dz, dz


def _whole_numbers() -> list[Sample]:
    signed = [dtype for dtype in INTEGERS if dtype in SIGNED]
    cases = [
        *((dtype, (1, 9)) for dtype in INTEGERS),
        *((dtype, (max(INTEGER_RANGES[dtype][0], -128), -1)) for dtype in signed),
        ("i32", (-9, 9)),
        ("u32", (0, 2)),
    ]
    return [
        Sample([TensorType((65,), dtype)] * 2, integers=ends, differentiable=False)
        for dtype, ends in cases
    ]


_DIVISION = [Sample([(65,), (65,)], low=-2.0, high=-0.4), *_whole_numbers()]

OPS = (
    # dx = g, dz = g
    binary(
        "add",
        "({0} + {1})",
        lambda x, z: np.add(x, z),
        lambda g, x, z, y: (g, g),
        dtypes=NUMBERS,
        commutative=True,
    ),
    # dx = g, dz = -g
    binary(
        "sub",
        "({0} - {1})",
        lambda x, z: np.subtract(x, z),
        lambda g, x, z, y: (g, -g),
        dtypes=NUMBERS,
    ),
    # dx = g z, dz = g x
    binary(
        "mul",
        "({0} * {1})",
        lambda x, z: np.multiply(x, z),
        lambda g, x, z, y: (g * z, g * x),
        dtypes=NUMBERS,
        commutative=True,
    ),
    # dx = g / z, dz = -(g / z) y
    binary(
        "div",
        div_wgsl,
        div_array,
        lambda g, x, z, y: (g / z, -(g / z * y)),
        functions=division_functions("div"),
        dtypes=NUMBERS,
        low=0.4,
        samples=_DIVISION,
    ),
    binary(
        "mod",
        mod_wgsl,
        mod_array,
        mod_derivative,
        functions=division_functions("mod"),
        dtypes=NUMBERS,
        low=0.4,
        samples=_DIVISION,
    ),
    binary(
        "pow",
        "wg_pow({0}, {1})",
        lambda x, z: np.power(x, z),
        pow_derivative,
        functions=("log", "pow"),
        low=0.2,
        high=3.0,
        cheap=False,
    ),
    binary(
        "maximum",
        extreme_wgsl("max"),
        lambda x, z: np.maximum(x, z),
        maximum_derivative,
        functions=extreme_functions("max"),
        dtypes=NUMBERS,
        commutative=True,
    ),
    binary(
        "minimum",
        extreme_wgsl("min"),
        lambda x, z: np.minimum(x, z),
        minimum_derivative,
        functions=extreme_functions("min"),
        dtypes=NUMBERS,
        commutative=True,
    ),
)
