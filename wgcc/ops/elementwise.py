"""Arithmetic of two operands of equal type: add sub mul div mod pow maximum minimum.

Whole numbers divide as in Python: the quotient is rounded down and the remainder has the divisor's
sign, so that x = (x / z) z + x % z. That holds for every x and z: x / 0 is 0 and x % 0 is x. Like
sums and products, the one quotient that i32 cannot hold (of -2³¹ and -1) wraps around, to -2³¹.

Comparisons take two operands of equal type to bool; there is logic on bools.

where(cond, a, b): a where cond holds, else b.

cast(x; dtype): the same numbers in another dtype. Floats lose their fraction to integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc.ir.dtypes import INTEGER_RANGES, INTEGERS, NUMBERS, SIGNED
from wgcc.ir.graph import DTYPES, FLOATS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import SHAPES, Term, binary, samples_of
from wgcc.ops.registry import (
    Op,
    Pointwise,
    Reference,
    Sample,
    ShapeError,
    check_dtype,
    check_same,
    numpy_dtype,
    wgsl_type,
)


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

BINARY_OPS = (
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


def no_grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    return [None] * len(node.inputs)


def _to_bool(name: str, dtypes: tuple[str, ...]) -> Callable[..., TensorType]:
    def infer(*types: TensorType) -> TensorType:
        check_same(name, *types)
        check_dtype(name, types[0], dtypes)
        return TensorType(types[0].shape, "bool")

    return infer


def _op(
    name: str,
    wgsl: str,
    reference: Reference,
    dtypes: tuple[str, ...],
    arity: int = 2,
    functions: tuple[str, ...] = (),
    commutative: bool = False,
) -> Op:
    return Op(
        name,
        _to_bool(name, dtypes),
        reference,
        Pointwise(wgsl, functions),
        no_grad,
        samples_of(arity, dtypes),
        commutative=commutative,
    )


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
        for d in (*INTEGERS, "bool")
    ]
    return floats + others


COMPARE_OPS = (
    _op("eq", "({0} == {1})", lambda x, z: np.equal(x, z), DTYPES, commutative=True),
    # `x != x` is false for NaN on some adapters; the negation of == is correct on all.
    _op("ne", "(!({0} == {1}))", lambda x, z: np.not_equal(x, z), DTYPES, commutative=True),
    _op("lt", "({0} < {1})", lambda x, z: np.less(x, z), NUMBERS),
    _op("le", "({0} <= {1})", lambda x, z: np.less_equal(x, z), NUMBERS),
    _op("gt", "({0} > {1})", lambda x, z: np.greater(x, z), NUMBERS),
    _op("ge", "({0} >= {1})", lambda x, z: np.greater_equal(x, z), NUMBERS),
    _op(
        "logical_and",
        "({0} && {1})",
        lambda x, z: np.logical_and(x, z),
        ("bool",),
        commutative=True,
    ),
    _op(
        "logical_or", "({0} || {1})", lambda x, z: np.logical_or(x, z), ("bool",), commutative=True
    ),
    _op("is_finite", "wg_finite({0})", lambda x: np.isfinite(x), FLOATS, 1, ("finite",)),
    _op("is_nan", "wg_nan({0})", lambda x: np.isnan(x), FLOATS, 1, ("nan",)),
    _op("logical_not", "(!{0})", lambda x: np.logical_not(x), ("bool",), 1),
    Op(
        "where",
        infer,
        lambda cond, a, b: np.where(cond, a, b),
        Pointwise("select({2}, {1}, {0})"),
        grad,
        _samples(),
    ),
)


def infer_cast(x: TensorType, dtype: str) -> TensorType:
    if dtype not in DTYPES:
        raise ShapeError(f"there is no dtype {dtype} (there are {', '.join(DTYPES)})")
    return TensorType(x.shape, dtype)


def reference(x: Array, dtype: str) -> Array:
    # A float64 evaluation stays in float64.
    if dtype == "f32" and x.dtype == np.float64:
        return x
    if x.dtype.kind == "f" and dtype in LIMITS:
        return _whole_cast(x, dtype)
    return x.astype(numpy_dtype(dtype))


# What is beyond the ends of a type becomes the float that is next to them, as in WGSL.
_NATURAL = (0.0, 2.0**32 - 256)
_WHOLE = (-(2.0**31), 2.0**31 - 128)
LIMITS = {dtype: _WHOLE if dtype in SIGNED else _NATURAL for dtype in INTEGERS}


def _whole_cast(x: Array, dtype: str) -> Array:
    """A byte keeps the last 8 bits of what i32 or u32 would be. What NaN becomes is undefined."""
    inside = np.clip(x.astype(np.float64), *LIMITS[dtype])
    return inside.astype(np.int64).astype(numpy_dtype(dtype))


def wgsl(node: Node) -> str:
    source, target = node.inputs[0].dtype, node.output.dtype
    if target == "bool":
        return {"f": "(!({0} == 0.0f))", "i": "({0} != 0i)", "u": "({0} != 0u)", "b": "{0}"}[
            source[0]
        ]
    if target in FLOATS:
        return "{0}" if source in FLOATS else "f32({0})"
    return f"{wgsl_type(target)}({{0}})"


def grad_cast(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g in x's dtype; integers have no gradient
    (g,), source = gs, node.inputs[0].dtype
    if g is None or source not in FLOATS or node.output.dtype not in FLOATS:
        return [None]
    return [b.apply("cast", g, dtype=source)]


def _samples_cast() -> list[Sample]:
    return [
        Sample(
            [TensorType((65,), a)], {"dtype": d}, 0.0, 9.0, (0, 9), differentiable=a == d == "f32"
        )
        for a in DTYPES
        for d in DTYPES
    ]


CAST_OPS = (Op("cast", infer_cast, reference, Pointwise(wgsl), grad_cast, _samples_cast()),)

OPS = (*BINARY_OPS, *COMPARE_OPS, *CAST_OPS)
