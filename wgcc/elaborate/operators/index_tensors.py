"""`x[rows, cols]`: the elements that tensors of indices name, broadcast together."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.elaborate.operators.arithmetic import elementwise
from wgcc.elaborate.operators.broadcasting import aligned
from wgcc.elaborate.operators.views import reshape, transpose
from wgcc.elaborate.tracing.arguments import Given
from wgcc.elaborate.tracing.dims import Dim, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Span

ONE = Dim.literal(1)
SHOWN = "x[…]"


def looked_up(tracer: Tracer, x: Tensor, ids: Sequence[Given], first: int, at: Span) -> Tensor:
    """The axes of the indices replace those that they index, which are from `first` on."""
    sizes = x.dims[first : first + len(ids)]
    for size, given in zip(sizes, ids, strict=True):
        tracer.look_up(_tensor(given), size.size, "an index")
    if len(ids) == 2:
        common = aligned(tracer, SHOWN, ids[0], ids[1], at)
        if _counts_rows(tracer, _tensor(ids[0]), sizes[0], common):
            return _row_by_row(tracer, x, _tensor(ids[1]), common, first)
    return _gathered(tracer, x, _position(tracer, sizes, ids, at), first, len(ids))


def _tensor(given: Given) -> Tensor:
    assert isinstance(given.value, Tensor)
    return given.value


def _counts_rows(tracer: Tracer, rows: Tensor, size: Dim, common: Sequence[Dim]) -> bool:
    """Whether the first indices are `arange` along their first axis: one column for each row."""
    node = tracer.trace.producer(rows.value)
    if node is not None and node.op == "reshape":
        node = tracer.trace.producer(node.inputs[0])
    if node is None or node.op != "iota" or node.attrs["n"] != size.size:
        return False
    return rows.rank == len(common) and rows.dims[0].size == size.size


def _row_by_row(
    tracer: Tracer, x: Tensor, cols: Tensor, common: Sequence[Dim], first: int
) -> Tensor:
    """Each row by itself: for gradients, only the columns of its own row are looked through."""
    before, after = x.dims[:first], x.dims[first + 2 :]
    per_row = [common[0], product(common[1:])]
    alone = [*[ONE] * first, *per_row, *[ONE] * len(after)]
    places = reshape(tracer, tracer.broadcast(cols, common), alone)
    places = tracer.broadcast(places, [*before, *per_row, *after])
    found = tracer.emit("take_along", x, places, dims=places.dims, dtype=x.dtype, axis=first + 1)
    return reshape(tracer, found, [*before, *common, *after])


def _gathered(tracer: Tracer, x: Tensor, place: Tensor, first: int, count: int) -> Tensor:
    """The indexed axes become the first one; there each element (or row) has one number."""
    end = first + count
    before, after = x.dims[:first], x.dims[end:]
    order = [*range(first, end), *range(first), *range(end, x.rank)]
    rows = product(x.dims[first:end])
    table = reshape(tracer, transpose(tracer, x, order), [rows, *before, *after])
    dims = [*place.dims, *before, *after]
    found = tracer.emit("gather", table, place, dims=dims, dtype=x.dtype)
    own = place.rank
    rest = range(own + first, own + first + len(after))
    return transpose(tracer, found, [*range(own, own + first), *range(own), *rest])


def _position(tracer: Tracer, sizes: Sequence[Dim], ids: Sequence[Given], at: Span) -> Tensor:
    """The row-major position of one index per axis."""
    total = ids[0]
    for size, given in zip(sizes[1:], ids[1:], strict=True):
        factor = Given(tracer.constant(size.size, "i32"), given.span)
        rows = Given(elementwise(tracer, SHOWN, "mul", total, factor, at), total.span)
        total = Given(elementwise(tracer, SHOWN, "add", rows, given, at), at)
    return _tensor(total)
