"""Write gradient rules and expansions as formulas: a `Term` is a value with arithmetic on it.

Knows how to build nodes, not what any op means. A formula written twice builds the same nodes
twice, which common-subexpression elimination merges.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Union

from wgcc.ir.graph import Builder, Value

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
