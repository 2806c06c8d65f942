"""Indexing: the value of `x[…]`, and the new state after `state[…] := value`.

`selections.py` gives a selection for each axis; here they become ops that read or write it.

`x[rows, cols]`: the elements that tensors of indices name, broadcast together.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.elaborate.operators.arithmetic import elementwise
from wgcc.elaborate.operators.broadcasting import (
    broadcast_dims,
    cut,
    flip,
    part,
    place,
    reshape,
    transpose,
)
from wgcc.elaborate.operators.selections import Selection, Selections, select
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Given
from wgcc.elaborate.tracing.dims import Dim, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import (
    AnyValue,
    ListValue,
    Tensor,
    TupleValue,
    describe,
)
from wgcc.errors import Span
from wgcc.syntax import ast

ONE = Dim.literal(1)
SHOWN = "x[…]"


def looked_up(tracer: Tracer, x: Tensor, ids: Sequence[Given], first: int, at: Span) -> Tensor:
    """The axes of the indices replace those that they index, which are from `first` on."""
    sizes = x.dims[first : first + len(ids)]
    for size, given in zip(sizes, ids, strict=True):
        tracer.look_up(_tensor(given), size.size, "an index")
    if len(ids) == 2:
        common = broadcast_dims(tracer, SHOWN, ids[0], ids[1], at)
        if _counts_rows(tracer, _tensor(ids[0]), sizes[0], common):
            return _row_by_row(tracer, x, _tensor(ids[1]), common, first)
    return _gather(tracer, x, _position(tracer, sizes, ids, at), first, len(ids))


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
    elements = tracer.emit("take_along", x, places, dims=places.dims, dtype=x.dtype, axis=first + 1)
    return reshape(tracer, elements, [*before, *common, *after])


def _gather(tracer: Tracer, x: Tensor, place: Tensor, first: int, count: int) -> Tensor:
    """The indexed axes become the first one; there each element (or row) has one number."""
    end = first + count
    before, after = x.dims[:first], x.dims[end:]
    order = [*range(first, end), *range(first), *range(end, x.rank)]
    rows = product(x.dims[first:end])
    table = reshape(tracer, transpose(tracer, x, order), [rows, *before, *after])
    dims = [*place.dims, *before, *after]
    elements = tracer.emit("gather", table, place, dims=dims, dtype=x.dtype)
    own = place.rank
    rest = range(own + first, own + first + len(after))
    return transpose(tracer, elements, [*range(own, own + first), *range(own), *rest])


def _position(tracer: Tracer, sizes: Sequence[Dim], ids: Sequence[Given], at: Span) -> Tensor:
    """The row-major position of one index per axis."""
    total = ids[0]
    for size, given in zip(sizes[1:], ids[1:], strict=True):
        factor = Given(tracer.constant(size.size, "i32"), given.span)
        rows = Given(elementwise(tracer, SHOWN, "mul", total, factor, at), total.span)
        total = Given(elementwise(tracer, SHOWN, "add", rows, given, at), at)
    return _tensor(total)


def index(tracer: Tracer, base: AnyValue, node: ast.Index) -> AnyValue:
    """`base[items]` for a tensor, a list or a tuple."""
    if isinstance(base, (ListValue, TupleValue)):
        return _item(tracer, base, node)
    if not isinstance(base, Tensor):
        text = f"{describe(base)} cannot be indexed"
        raise Stop(tracer.report.error("WG0413", text, node.span))
    return read(tracer, base, select(tracer, base, node), node.span)


def index_write(
    tracer: Tracer, base: Tensor, node: ast.Index, value: AnyValue, value_span: Span
) -> Tensor:
    """The new value of `base` after `base[items] := value`."""
    chosen = select(tracer, base, node)
    if chosen.ids:
        text = "elements that a tensor of indices names cannot be written"
        problem = tracer.report.error("WG0413", text, chosen.ids[0].span)
        raise Stop(problem.help("`scatter_add(x, ids, values)` adds to them; assign its result"))
    update = tracer.fit(value, base.dtype, chosen.dims, value_span)
    tracer.here = node.span
    whole = reshape(tracer, update, [axis.dim for axis in chosen.axes])
    whole = _reverse(tracer, whole, chosen)
    return _write(tracer, base, chosen.axes, whole, 0)


def read(tracer: Tracer, x: Tensor, chosen: Selections, at: Span) -> Tensor:
    """First one slice for everything known at compile time, then indices known at run time.

    A slice backwards is a slice forwards whose elements are then reversed.
    """
    tracer.here = at
    starts = [axis.start for axis in chosen.axes]
    steps = [axis.step for axis in chosen.axes]
    dims = [
        whole if axis.at is not None else axis.dim
        for axis, whole in zip(chosen.axes, x.dims, strict=True)
    ]
    result = _reverse(tracer, cut(tracer, x, starts, dims, steps), chosen)
    for number, axis in enumerate(chosen.axes):
        if axis.at is not None:
            result = _window(tracer, result, number, axis)
    result = reshape(tracer, result, chosen.dims)
    if not chosen.ids:
        return result
    return looked_up(tracer, result, chosen.ids, chosen.first_id, at)


def _reverse(tracer: Tracer, x: Tensor, chosen: Selections) -> Tensor:
    return flip(tracer, x, [n for n, axis in enumerate(chosen.axes) if axis.backwards])


def _window(tracer: Tracer, x: Tensor, axis: int, chosen: Selection) -> Tensor:
    assert chosen.at is not None
    dims = [*x.dims[:axis], chosen.dim, *x.dims[axis + 1 :]]
    size = chosen.dim.size
    tracer.look_up(chosen.at, x.dims[axis].size - size + 1, "a position")
    return tracer.emit("window", x, chosen.at, dims=dims, dtype=x.dtype, axis=axis, size=size)


def _write(
    tracer: Tracer, base: Tensor, axes: Sequence[Selection], update: Tensor, first: int
) -> Tensor:
    """Put `update` into `base`, axis by axis: recursively inside the selected part."""
    axis = next((n for n in range(first, base.rank) if not axes[n].whole), None)
    if axis is None:
        return Tensor(update.value, base.dims)
    chosen = axes[axis]
    if any(not later.whole for later in axes[axis + 1 :]):
        inside = _take(tracer, base, axis, chosen)
        update = _write(tracer, inside, axes, update, axis + 1)
    if chosen.step > 1:
        return _write_steps(tracer, base, update, axis, chosen)
    if chosen.at is not None:
        tracer.look_up(chosen.at, base.dims[axis].size - chosen.dim.size + 1, "a position")
    at = chosen.at if chosen.at is not None else tracer.constant(chosen.start, "i32")
    return tracer.emit(
        "window_update", base, update, at, dims=base.dims, dtype=base.dtype, axis=axis
    )


def _take(tracer: Tracer, base: Tensor, axis: int, chosen: Selection) -> Tensor:
    if chosen.at is not None:
        return _window(tracer, base, axis, chosen)
    return part(tracer, base, axis, chosen.start, chosen.dim, chosen.step)


def _write_steps(
    tracer: Tracer, base: Tensor, update: Tensor, axis: int, chosen: Selection
) -> Tensor:
    """Every `step`-th element: the update is spread among zeros, then selected by a mask."""
    starts, steps = [0] * base.rank, [1] * base.rank
    starts[axis], steps[axis] = chosen.start, chosen.step
    spread = place(tracer, update, starts, base.dims, steps)
    true = tracer.broadcast(tracer.constant(True, "bool"), update.dims)
    mask = place(tracer, true, starts, base.dims, steps)
    return tracer.emit("where", mask, spread, base, dims=base.dims, dtype=base.dtype)


def _item(tracer: Tracer, base: ListValue | TupleValue, node: ast.Index) -> AnyValue:
    """One item of a list or tuple: the index must be known at compile time."""
    indices = [tracer.evaluate(item) for item in node.items if not isinstance(item, NOT_A_NUMBER)]
    if len(node.items) != 1 or not indices or not isinstance(indices[0], Dim):
        text = "a list is indexed with one number known at compile time"
        raise Stop(tracer.report.error("WG0413", text, node.items[0] if node.items else node))
    number = indices[0].size
    if not -len(base.items) <= number < len(base.items):
        text = f"index {number} is outside this list of {len(base.items)}"
        raise Stop(tracer.report.error("WG0413", text, node.items[0]))
    return base.items[number]


NOT_A_NUMBER = (ast.Slice, ast.Window, ast.Rest, ast.NewAxis)
