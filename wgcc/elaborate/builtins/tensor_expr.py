"""Formulas over tensors, for built-ins that consist of several ops: `(x - y).square().mean()`.

A `TensorExpr` is a tensor as the source sees it: its sizes are dims, and shapes broadcast. A `Term`
(wgcc/ops/formula.py) is a value of the graph, where broadcasts are nodes. Dtypes and shapes have
been checked before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod

from wgcc.elaborate.operators import broadcasting
from wgcc.elaborate.operators.broadcasting import common_dim
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor


@dataclass(frozen=True, eq=False)
class TensorExpr:
    tracer: Tracer
    tensor: Tensor

    @property
    def dims(self) -> tuple[Dim, ...]:
        return self.tensor.dims

    @property
    def rank(self) -> int:
        return self.tensor.rank

    @property
    def dtype(self) -> str:
        return self.tensor.dtype

    def apply(self, op: str, *others: TensorExpr | float, dtype: str = "") -> TensorExpr:
        """A pointwise op; numbers take the dtype of this tensor."""
        operands = [self, *(self.of(other) for other in others)]
        dims = _common_dims([operand.dims for operand in operands])
        tensors = [self.tracer.broadcast(operand.tensor, dims) for operand in operands]
        result = self.tracer.emit(op, *tensors, dims=dims, dtype=dtype or self.dtype)
        return TensorExpr(self.tracer, result)

    def of(self, other: TensorExpr | float) -> TensorExpr:
        if isinstance(other, TensorExpr):
            return other
        return TensorExpr(self.tracer, self.tracer.constant(other, self.dtype))

    def __add__(self, other: TensorExpr | float) -> TensorExpr:
        return self.apply("add", other)

    def __sub__(self, other: TensorExpr | float) -> TensorExpr:
        return self.apply("sub", other)

    def __rsub__(self, other: float) -> TensorExpr:
        return self.of(other).apply("sub", self)

    def __mul__(self, other: TensorExpr | float) -> TensorExpr:
        return self.apply("mul", other)

    def __truediv__(self, other: TensorExpr | float) -> TensorExpr:
        return self.apply("div", other)

    def __neg__(self) -> TensorExpr:
        return self.apply("neg")

    def __and__(self, other: TensorExpr) -> TensorExpr:
        return self.apply("logical_and", other)

    def __or__(self, other: TensorExpr) -> TensorExpr:
        return self.apply("logical_or", other)

    def compare(self, op: str, other: TensorExpr | float) -> TensorExpr:
        """`op` is one of eq ne lt le gt ge."""
        return self.apply(op, other, dtype="bool")

    def choose(self, yes: TensorExpr, no: TensorExpr | float) -> TensorExpr:
        """`yes` where this condition holds, else `no`."""
        other = yes.of(no)
        dims = _common_dims([self.dims, yes.dims, other.dims])
        tensors = [self.tracer.broadcast(operand.tensor, dims) for operand in (self, yes, other)]
        result = self.tracer.emit("where", *tensors, dims=dims, dtype=yes.dtype)
        return TensorExpr(self.tracer, result)

    def reduce(self, op: str, axes: Sequence[int] | None = None) -> TensorExpr:
        """`op` is one of sum max min prod any all; without axes over all of them."""
        chosen = tuple(sorted(range(self.rank) if axes is None else axes))
        if not chosen:
            return self
        dims = [dim for axis, dim in enumerate(self.dims) if axis not in chosen]
        result = self.tracer.emit(op, self.tensor, dims=dims, dtype=self.dtype, axes=chosen)
        return TensorExpr(self.tracer, result)

    def sum(self, axes: Sequence[int] | None = None) -> TensorExpr:
        return self.reduce("sum", axes)

    def mean(self, axes: Sequence[int] | None = None) -> TensorExpr:
        chosen = range(self.rank) if axes is None else axes
        count = prod(self.dims[axis].size for axis in chosen)
        total = self.sum(axes)
        return total * (1.0 / count) if count != 1 else total

    def keep(self, axes: Sequence[int], before: TensorExpr) -> TensorExpr:
        """Put the reduced axes of `before` back, with size 1."""
        one = Dim.literal(1)
        dims = [one if axis in axes else dim for axis, dim in enumerate(before.dims)]
        return self.reshape(dims)

    def cast(self, dtype: str) -> TensorExpr:
        return TensorExpr(self.tracer, self.tracer.cast(self.tensor, dtype))

    def reshape(self, dims: Sequence[Dim]) -> TensorExpr:
        return TensorExpr(self.tracer, broadcasting.reshape(self.tracer, self.tensor, dims))

    def transpose(self, order: Sequence[int]) -> TensorExpr:
        return TensorExpr(self.tracer, broadcasting.transpose(self.tracer, self.tensor, order))

    def broadcast(self, dims: Sequence[Dim]) -> TensorExpr:
        return TensorExpr(self.tracer, self.tracer.broadcast(self.tensor, dims))

    def new_axis(self, axis: int) -> TensorExpr:
        return TensorExpr(
            self.tracer, broadcasting.new_axis(self.tracer, self.tensor, axis % (self.rank + 1))
        )


def iota(tracer: Tracer, dim: Dim, dtype: str = "i32") -> TensorExpr:
    """0, 1, 2, …"""
    return TensorExpr(tracer, tracer.emit("iota", dims=[dim], dtype=dtype, n=dim.size))


def _common_dims(shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    result: list[Dim] = []
    for column in zip_longest(*(reversed(shape) for shape in shapes)):
        joined: Dim | None = None
        for dim in column:
            if dim is not None:
                joined = dim if joined is None else _joined(joined, dim)
        assert joined is not None
        result.append(joined)
    return tuple(reversed(result))


def _joined(a: Dim, b: Dim) -> Dim:
    """Here any axis of size 1 stretches, because arguments of users were checked before."""
    if a.size != b.size:
        return b if a.size == 1 else a
    return common_dim(a, b)
