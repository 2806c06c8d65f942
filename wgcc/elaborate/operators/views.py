"""Views: ops that only change where elements are found. No node is emitted for an identity."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.elaborate.tracing.dims import Dim, sizes_of
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor


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
