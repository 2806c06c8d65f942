"""Comparisons (two operands of equal type to bool) and logic on bools.

where(cond, a, b): a where cond holds, else b.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc.ir.dtypes import INTEGERS, NUMBERS
from wgcc.ir.graph import DTYPES, FLOATS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import np
from wgcc.ops.checks import check_dtype, check_same
from wgcc.ops.formula import Term
from wgcc.ops.pointwise import SHAPES, samples_of
from wgcc.ops.registry import Op, Pointwise, Reference, Sample, ShapeError


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


OPS = (
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
