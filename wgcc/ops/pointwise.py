"""Defines pointwise ops from a name, WGSL, the numpy reference and a derivative.

Has what they share (equal operand types, samples at awkward sizes); the rules of each op are in
`unary.py`, `activations.py`, `binary.py` and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc.ir.dtypes import SIGNED
from wgcc.ir.graph import FLOATS, Builder, Node, TensorType, Value
from wgcc.ops.checks import check_dtype, check_same
from wgcc.ops.formula import Term
from wgcc.ops.registry import Functions, GradRule, NumberRule, Op, Pointwise, Reference, Sample

UnaryDerivative = Callable[[Term, Term, Term], Term]
BinaryDerivative = Callable[[Term, Term, Term, Term], tuple[Term, Term]]
Wgsl = str | Callable[[Node], str]

# Rank 0 to 4, size 1, a workgroup plus or minus one, primes.
SHAPES: tuple[tuple[int, ...], ...] = (
    (),
    (1,),
    (63,),
    (64,),
    (65,),
    (257,),
    (3, 5),
    (7, 1, 13),
    (2, 3, 4, 5),
)


def samples_of(
    arity: int, dtypes: Sequence[str], low: float = -2.0, high: float = 2.0
) -> list[Sample]:
    """Every shape in f32 (where the op takes it), and two shapes in each integer dtype."""
    found = [Sample([shape] * arity, {}, low, high) for shape in SHAPES if "f32" in dtypes]
    for dtype in dtypes:
        if dtype not in FLOATS:
            span = (-3, 5) if dtype in SIGNED else (1, 5) if dtype != "bool" else (0, 1)
            for shape in ((65,), (3, 5)):
                types = [TensorType(shape, dtype)] * arity
                found.append(Sample(types, integers=span, differentiable=False))
    return found


def unary(
    name: str,
    wgsl: Wgsl,
    reference: Reference,
    derivative: UnaryDerivative | None = None,
    *,
    functions: Functions = (),
    dtypes: tuple[str, ...] = FLOATS,
    low: float = -2.0,
    high: float = 2.0,
    cheap: bool = True,
    part: str = "",
    samples: Sequence[Sample] = (),
    number: NumberRule | None = None,
    identity: bool = False,
) -> Op:
    """`derivative(g, x, y)` gives dx; without it the gradient is zero."""

    def infer(x: TensorType) -> TensorType:
        check_dtype(name, x, dtypes)
        return x

    def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
        (g,) = gs
        if derivative is None or g is None:
            return [None]
        x, y = Term(b, node.inputs[0]), Term(b, node.output)
        return [derivative(Term(b, g), x, y).value]

    return Op(
        name,
        infer,
        reference,
        Pointwise(wgsl, functions, cheap, part),
        grad,
        [*samples_of(1, dtypes, low, high), *samples],
        number=number,
        stops_gradient=derivative is None,
        identity=identity,
    )


def binary(
    name: str,
    wgsl: Wgsl,
    reference: Reference,
    derivative: BinaryDerivative,
    *,
    functions: Functions = (),
    dtypes: tuple[str, ...] = FLOATS,
    low: float = -2.0,
    high: float = 2.0,
    cheap: bool = True,
    commutative: bool = False,
    samples: Sequence[Sample] = (),
) -> Op:
    """`derivative(g, x, z, y)` of y = op(x, z) gives (dx, dz)."""

    def infer(x: TensorType, z: TensorType) -> TensorType:
        check_same(name, x, z)
        check_dtype(name, x, dtypes)
        return x

    return Op(
        name,
        infer,
        reference,
        Pointwise(wgsl, functions, cheap),
        _binary_grad(derivative),
        [*samples_of(2, dtypes, low, high), *samples],
        commutative=commutative,
    )


def _binary_grad(derivative: BinaryDerivative) -> GradRule:
    def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
        (g,) = gs
        if g is None or node.output.dtype not in FLOATS:
            return [None, None]
        x, z = (Term(b, value) for value in node.inputs)
        return [term.value for term in derivative(Term(b, g), x, z, Term(b, node.output))]

    return grad
