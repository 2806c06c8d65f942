"""Write gradient rules and expansions as formulas: a `Term` is a value with arithmetic on it.

Knows how to build nodes, not what any op means. A formula written twice builds the same nodes
twice, which common-subexpression elimination merges.

`unary` and `binary` define pointwise ops from a name, WGSL, the numpy reference and a derivative as
a formula. They have what such ops share (equal operand types, samples at awkward sizes); the rules
of each op are in `unary.py` and `elementwise.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Union

from wgcc.ir.dtypes import SIGNED
from wgcc.ir.graph import FLOATS, Builder, Node, TensorType, Value
from wgcc.ops.registry import (
    Functions,
    GradRule,
    NumberRule,
    Op,
    Pointwise,
    Reference,
    Sample,
    check_dtype,
    check_same,
)

Operand = Union["Term", float]


class Term:
    """One value of the graph under construction; numbers become constants of its shape."""

    __slots__ = ("b", "value")

    def __init__(self, b: Builder, value: Value) -> None:
        self.b = b
        self.value = value

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> str:
        return self.value.dtype

    def apply(self, op: str, *others: Term, **attrs: Any) -> Term:
        return Term(self.b, self.b.apply(op, self.value, *(t.value for t in others), **attrs))

    def like(self, number: float) -> Term:
        """`number` in every element of this shape."""
        constant = Term(self.b, self.b.constant(number, self.dtype))
        return constant.broadcast(self.shape)

    def __add__(self, other: Operand) -> Term:
        return self.apply("add", self._operand(other))

    def __radd__(self, other: float) -> Term:
        return self.like(other) + self

    def __sub__(self, other: Operand) -> Term:
        return self.apply("sub", self._operand(other))

    def __rsub__(self, other: float) -> Term:
        return self.like(other) - self

    def __mul__(self, other: Operand) -> Term:
        return self.apply("mul", self._operand(other))

    def __rmul__(self, other: float) -> Term:
        return self * other

    def __truediv__(self, other: Operand) -> Term:
        return self.apply("div", self._operand(other))

    def __neg__(self) -> Term:
        return self.apply("neg")

    def exp(self) -> Term:
        return self.apply("exp")

    def square(self) -> Term:
        return self.apply("square")

    def equals(self, other: Operand) -> Term:
        return self.apply("eq", self._operand(other))

    def exceeds(self, other: Operand) -> Term:
        return self.apply("gt", self._operand(other))

    def choose(self, yes: Term, no: Operand) -> Term:
        """`yes` where this (bool) term holds, else `no`."""
        return self.apply("where", yes, yes._operand(no))

    def cast(self, dtype: str) -> Term:
        return self if dtype == self.dtype else self.apply("cast", dtype=dtype)

    def sum(self, axes: Sequence[int]) -> Term:
        return self.apply("sum", axes=tuple(axes)) if axes else self

    def mean(self, axes: Sequence[int]) -> Term:
        # Dividing by a whole number is more accurate than multiplying by a rounded 1 / n.
        return self.sum(axes) / prod(self.shape[axis] for axis in axes)

    def reshape(self, shape: Sequence[int]) -> Term:
        return self if tuple(shape) == self.shape else self.apply("reshape", shape=tuple(shape))

    def broadcast(self, shape: Sequence[int]) -> Term:
        return self if tuple(shape) == self.shape else self.apply("broadcast", shape=tuple(shape))

    def spread(self, axes: Sequence[int], shape: Sequence[int]) -> Term:
        """Put the reduced `axes` back, with the same value along each of them."""
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        leading = tuple(axes) == tuple(range(len(axes)))
        return (self if leading else self.reshape(kept)).broadcast(shape)

    def _operand(self, other: Operand) -> Term:
        return other if isinstance(other, Term) else self.like(other)


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
    samples = [Sample([shape] * arity, {}, low, high) for shape in SHAPES if "f32" in dtypes]
    for dtype in dtypes:
        if dtype not in FLOATS:
            span = (-3, 5) if dtype in SIGNED else (1, 5) if dtype != "bool" else (0, 1)
            for shape in ((65,), (3, 5)):
                types = [TensorType(shape, dtype)] * arity
                samples.append(Sample(types, integers=span, differentiable=False))
    return samples


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
