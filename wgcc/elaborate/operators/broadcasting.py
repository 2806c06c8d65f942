"""Broadcasting, and views of tensors: other shapes and orders of axes, parts, new axes; and
formulas over tensors, for built-ins that consist of several ops: `(x - y).square().mean()`.

A `TensorExpr` is a tensor as the source sees it: its sizes are dims, and shapes broadcast. A
`Term` (wgcc/ops/formula.py) is a value of the graph, where broadcasts are nodes. Dtypes and
shapes have been checked before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod

from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Given
from wgcc.elaborate.tracing.dims import DIFF, SAME, Dim, compare, shape_text, sizes_of
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Diagnostic, Span


def broadcast_dims(
    tracer: Tracer, op: str, left: Given, right: Given, at: Span, without: int = 0
) -> tuple[Dim, ...]:
    """The dims of `left op right`, leaving out the last `without` axes of both.

    Reports WG0411 if they cannot be broadcast.
    """
    a, b = left.value, right.value
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    last_a, last_b = max(0, a.rank - without), max(0, b.rank - without)
    result: list[Dim] = []
    for x, y in zip_longest(reversed(a.dims[:last_a]), reversed(b.dims[:last_b])):
        if x is not None and y is not None and not (x.is_one or y.is_one):
            if compare(x, y) is DIFF:
                raise _cannot_broadcast(tracer, op, (left, right), (x, y), at)
            tracer.same_size(x, y, at, f"`{op}`")
        result.append(common_dim(x, y))
    return tuple(reversed(result))


def common_dim(x: Dim | None, y: Dim | None) -> Dim:
    """The dim of two axes that agree: the one that exists, is not 1, or has a name."""
    if x is None or y is None:
        dim = x or y
        assert dim is not None
        return dim
    return y if x.is_one or (x.is_literal and not y.is_one) else x


def _cannot_broadcast(
    tracer: Tracer, op: str, operands: tuple[Given, Given], axes: tuple[Dim, Dim], at: Span
) -> Stop:
    problem = tracer.report.error("WG0411", f"`{op}`: the shapes cannot be broadcast", at)
    for operand in operands:
        problem.also(operand.span, str(operand.value))
    x, y = axes
    problem.note(f"shapes are compared from the last axis: {x.full} against {y.full}")
    return Stop(_suggest_new_axis(problem, *operands))


def _suggest_new_axis(problem: Diagnostic, left: Given, right: Given) -> Diagnostic:
    """If the smaller shape is a run of the larger one's axes, say how to align it."""
    a, b = left.value, right.value
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    large, small, operand = (a, b, right) if a.rank >= b.rank else (b, a, left)
    for start in range(large.rank - small.rank):
        run = large.dims[start : start + small.rank]
        if all(compare(x, y) is SAME for x, y in zip(run, small.dims, strict=True)):
            after = large.rank - start - small.rank
            index = ", ".join([":"] * small.rank + ["new"] * after)
            return problem.help(
                f"to align it with the axes [{shape_text(run)}] "
                f"write `{operand.span.text}[{index}]`"
            )
    return problem


def reshape(tracer: Tracer, x: Tensor, dims: Sequence[Dim]) -> Tensor:
    """The same elements in another shape; only the names change if the sizes are equal."""
    if sizes_of(dims) == sizes_of(x.dims):
        return Tensor(x.value, tuple(dims))
    return tracer.emit("reshape", x, dims=dims, dtype=x.dtype)


def transpose(tracer: Tracer, x: Tensor, order: Sequence[int]) -> Tensor:
    """Axis i of the result is axis `order[i]` of `x`."""
    if list(order) == list(range(x.rank)):
        return x
    dims = [x.dims[axis] for axis in order]
    return tracer.emit("transpose", x, dims=dims, dtype=x.dtype, perm=tuple(order))


def flip(tracer: Tracer, x: Tensor, axes: Sequence[int]) -> Tensor:
    """The elements in reverse order along some axes."""
    chosen = tuple(axis for axis in sorted(axes) if x.dims[axis].size > 1)
    return tracer.emit("flip", x, dims=x.dims, dtype=x.dtype, axes=chosen) if chosen else x


def part(tracer: Tracer, x: Tensor, axis: int, start: int, dim: Dim, step: int = 1) -> Tensor:
    """`dim.size` elements along one axis, from `start` on, each `step` after the last."""
    starts, steps = [0] * x.rank, [1] * x.rank
    starts[axis], steps[axis] = start, step
    dims = [*x.dims[:axis], dim, *x.dims[axis + 1 :]]
    return cut(tracer, x, starts, dims, steps)


def cut(
    tracer: Tracer, x: Tensor, starts: Sequence[int], dims: Sequence[Dim], steps: Sequence[int]
) -> Tensor:
    """A slice of `x` in all axes, each with its start, length and step."""
    sizes = sizes_of(dims)
    if sizes == sizes_of(x.dims):
        return Tensor(x.value, tuple(dims))
    return tracer.emit(
        "slice", x, dims=dims, dtype=x.dtype,
        starts=tuple(starts), sizes=sizes, steps=tuple(steps),
    )  # fmt: skip


def place(
    tracer: Tracer, x: Tensor, starts: Sequence[int], dims: Sequence[Dim], steps: Sequence[int]
) -> Tensor:
    """The opposite of `cut`: `x` as a slice of a tensor of `dims` that is zero elsewhere."""
    if sizes_of(dims) == sizes_of(x.dims):
        return Tensor(x.value, tuple(dims))
    return tracer.emit(
        "unslice", x, dims=dims, dtype=x.dtype,
        shape=sizes_of(dims), starts=tuple(starts), steps=tuple(steps),
    )  # fmt: skip


def new_axis(tracer: Tracer, x: Tensor, axis: int) -> Tensor:
    """Insert an axis of size 1 before `axis`."""
    return reshape(tracer, x, [*x.dims[:axis], Dim.literal(1), *x.dims[axis:]])


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
        return TensorExpr(self.tracer, reshape(self.tracer, self.tensor, dims))

    def transpose(self, order: Sequence[int]) -> TensorExpr:
        return TensorExpr(self.tracer, transpose(self.tracer, self.tensor, order))

    def broadcast(self, dims: Sequence[Dim]) -> TensorExpr:
        return TensorExpr(self.tracer, self.tracer.broadcast(self.tensor, dims))

    def new_axis(self, axis: int) -> TensorExpr:
        return TensorExpr(self.tracer, new_axis(self.tracer, self.tensor, axis % (self.rank + 1)))


def iota(tracer: Tracer, dim: Dim, dtype: str = "i32") -> TensorExpr:
    """0, 1, 2, …"""
    return TensorExpr(tracer, tracer.emit("iota", dims=[dim], dtype=dtype, n=dim.size))


def _common_dims(shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    result: list[Dim] = []
    for column in zip_longest(*(reversed(shape) for shape in shapes)):
        joined: Dim | None = None
        for dim in column:
            if dim is not None:
                joined = dim if joined is None else _join(joined, dim)
        assert joined is not None
        result.append(joined)
    return tuple(reversed(result))


def _join(a: Dim, b: Dim) -> Dim:
    """Here any axis of size 1 stretches, because arguments of users were checked before."""
    if a.size != b.size:
        return b if a.size == 1 else a
    return common_dim(a, b)
