"""Arithmetic of two operands of equal type: add sub mul div mod pow maximum minimum."""

from __future__ import annotations

from wgcc.ir.graph import FLOATS, Node, TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import NUMBERS
from wgcc.ops.formula import Term
from wgcc.ops.pointwise import binary
from wgcc.ops.registry import Sample


def div_array(x: Array, z: Array) -> Array:
    if np.issubdtype(x.dtype, np.floating):
        return np.asarray(x / z)
    # Integers divide towards zero; as in WGSL, x / 0 is x.
    quotient = np.abs(x) // np.abs(_nonzero(z))
    return np.asarray(quotient * (np.sign(x) * np.sign(_nonzero(z))), x.dtype)


def mod_array(x: Array, z: Array) -> Array:
    """The remainder that has the divisor's sign; for integers, as in WGSL, 0 when z is 0."""
    floats = np.issubdtype(x.dtype, np.floating)
    return np.mod(x, z if floats else _nonzero(z))


def _nonzero(z: Array) -> Array:
    return np.where(z == 0, np.asarray(1, z.dtype), z)


def mod_wgsl(node: Node) -> str:
    dtype = node.output.dtype
    if dtype in FLOATS:
        return "wg_mod({0}, {1})"
    return "wg_mod_i32({0}, {1})" if dtype == "i32" else "({0} % {1})"


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


def _nonzero_integers() -> list[Sample]:
    i32, u32, u8 = (TensorType((65,), dtype) for dtype in ("i32", "u32", "u8"))
    return [
        Sample([i32, i32], integers=(1, 9), differentiable=False),
        Sample([i32, i32], integers=(-9, -1), differentiable=False),
        Sample([u32, u32], integers=(1, 9), differentiable=False),
        Sample([u8, u8], integers=(1, 9), differentiable=False),
    ]


_DIVISION = [Sample([(65,), (65,)], low=-2.0, high=-0.4), *_nonzero_integers()]

OPS = (
    # dx = g, dz = g
    binary(
        "add", "({0} + {1})", lambda x, z: np.add(x, z), lambda g, x, z, y: (g, g), dtypes=NUMBERS
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
    ),
    # dx = g / z, dz = -(g / z) y
    binary(
        "div",
        "({0} / {1})",
        div_array,
        lambda g, x, z, y: (g / z, -(g / z * y)),
        dtypes=NUMBERS,
        low=0.4,
        samples=_DIVISION,
    ),
    binary(
        "mod",
        mod_wgsl,
        mod_array,
        mod_derivative,
        functions=("mod",),
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
        "max({0}, {1})",
        lambda x, z: np.maximum(x, z),
        maximum_derivative,
        dtypes=NUMBERS,
    ),
    binary(
        "minimum",
        "min({0}, {1})",
        lambda x, z: np.minimum(x, z),
        minimum_derivative,
        dtypes=NUMBERS,
    ),
)
