"""Functions that look elements up by index, or add them up by it:
`gather take_along_axis scatter_add segment_sum`."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.reductions import SUMMABLE
from wgcc.elaborate.operators import broadcasting
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Span
from wgcc.ir.graph import INTEGERS


def gather(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The rows of a table that `ids` name."""
    table = expect.tensor(tracer, args, "table")
    if not table.dims:
        text = "`table` must have rows, but this is a single number"
        raise Stop(tracer.report.error("WG0415", text, args.span("table"), str(table)))
    ids = args["ids"]
    if isinstance(ids, Dim):
        return _row(tracer, args, table, ids)
    places = tracer.cast(expect.tensor(tracer, args, "ids", INTEGERS), "i32")
    tracer.look_up(places, table.dims[0].size, "an id")
    dims = (*places.dims, *table.dims[1:])
    return tracer.emit("gather", table, places, dims=dims, dtype=table.dtype)


def _row(tracer: Tracer, args: BoundArgs, table: Tensor, number: Dim) -> Tensor:
    rows = table.dims[0]
    if not 0 <= number.size < rows.size and not tracer.generic:
        text = f"row {number.size} is outside a table of {rows.full} rows"
        raise Stop(tracer.report.error("WG0413", text, args.span("ids")))
    row = broadcasting.part(tracer, table, 0, number.size, Dim.literal(1))
    return broadcasting.reshape(tracer, row, table.dims[1:])


def take_along_axis(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """Along an axis, the elements that `ids` name, in each row by itself."""
    x = expect.tensor(tracer, args, "x")
    axis = expect.axis(tracer, args, x)
    ids = _places(tracer, args, x.rank)
    dims = _common(tracer, args, x, ids, axis)
    rows = tracer.broadcast(x, [*dims[:axis], x.dims[axis], *dims[axis + 1 :]])
    places = tracer.broadcast(ids, [*dims[:axis], ids.dims[axis], *dims[axis + 1 :]])
    tracer.look_up(ids, x.dims[axis].size, "an id")
    return tracer.emit("take_along", rows, places, dims=places.dims, dtype=x.dtype, axis=axis)


def scatter_add(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x, and to each of its elements along an axis the values whose id names it."""
    x = expect.tensor(tracer, args, "x", SUMMABLE)
    axis = expect.axis(tracer, args, x)
    values = expect.tensor(tracer, args, "values", (x.dtype,), rank=x.rank)
    _check_beside(tracer, args, "values", x, values, axis)
    ids = tracer.cast(expect.tensor(tracer, args, "ids", INTEGERS), "i32")
    wanted = values.dims if ids.rank == values.rank else values.dims[axis : axis + 1]
    _check_ids(tracer, args, "values", values, ids, wanted)
    size = x.dims[axis].size
    tracer.look_up(ids, size, "an id")
    if ids.rank == 1 and axis == 0:
        # Whole rows have one id each, which large tables make use of.
        sums = tracer.emit("gather_grad", values, ids, dims=x.dims, dtype=x.dtype, rows=size)
        return tracer.emit("add", x, sums, dims=x.dims, dtype=x.dtype)
    along = [*(Dim.literal(1) for _ in range(axis)), ids.dims[0]] if ids.rank == 1 else ids.dims
    along = [*along, *(Dim.literal(1) for _ in range(values.rank - len(along)))]
    places = tracer.broadcast(broadcasting.reshape(tracer, ids, along), values.dims)
    sums = tracer.emit(
        "add_along", values, places, dims=x.dims, dtype=x.dtype, axis=axis, size=size
    )
    return tracer.emit("add", x, sums, dims=x.dims, dtype=x.dtype)


def segment_sum(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """`size` rows: each the sum of the rows of `x` that have its number as id."""
    x = expect.tensor(tracer, args, "x", SUMMABLE)
    ids = tracer.cast(expect.tensor(tracer, args, "ids", INTEGERS), "i32")
    size = expect.whole(tracer, args, "size")
    if ids.rank == 0 or ids.rank > x.rank:
        text = f"`ids` must be one id for each row of `x`, but this is {ids}"
        raise Stop(tracer.report.error("WG0415", text, args.span("ids"), str(ids)))
    _check_ids(tracer, args, "x", x, ids, x.dims[: ids.rank])
    tracer.look_up(ids, size.size, "an id")
    dims = (size, *x.dims[ids.rank :])
    return tracer.emit("gather_grad", x, ids, dims=dims, dtype=x.dtype, rows=size.size)


def _places(tracer: Tracer, args: BoundArgs, rank: int) -> Tensor:
    ids = tracer.cast(expect.tensor(tracer, args, "ids", INTEGERS), "i32")
    if ids.rank == rank:
        return ids
    text = f"`ids` must have as many axes as `x`, {rank}, but this is {ids}"
    problem = tracer.report.error("WG0415", text, args.span("ids"), str(ids))
    raise Stop(
        problem.help("`gather(x, ids)` looks up whole rows, `x[rows, cols]` single elements")
    )


def _common(tracer: Tracer, args: BoundArgs, x: Tensor, ids: Tensor, axis: int) -> tuple[Dim, ...]:
    """The sizes beside `axis`; one of size 1 is repeated."""
    found = []
    for number, (a, b) in enumerate(zip(x.dims, ids.dims, strict=True)):
        stretches = a.is_one or b.is_one or number == axis
        if not stretches and not tracer.same_size(a, b, args.span("ids"), "`take_along_axis`"):
            text = f"axis {number} of `x` is {a.full}, but of `ids` it is {b.full}"
            problem = tracer.report.error("WG0406", text, args.span("ids"), str(ids))
            raise Stop(problem.also(args.span("x"), str(x)))
        found.append(b if a.is_one else a)
    return tuple(found)


def _check_beside(
    tracer: Tracer, args: BoundArgs, name: str, x: Tensor, other: Tensor, axis: int
) -> None:
    """Two tensors must have equal sizes in all axes but one."""
    for number, (a, b) in enumerate(zip(x.dims, other.dims, strict=True)):
        same = number == axis or tracer.same_size(a, b, args.span(name), "`scatter_add`")
        if not same:
            text = f"axis {number} of `x` is {a.full}, but of `{name}` it is {b.full}"
            problem = tracer.report.error("WG0406", text, args.span(name), str(other))
            raise Stop(problem.also(args.span("x"), str(x)))


def _check_ids(
    tracer: Tracer,
    args: BoundArgs,
    name: str,
    values: Tensor,
    ids: Tensor,
    wanted: tuple[Dim, ...],
) -> None:
    """One id for each element, or for each row, of the argument `name`."""
    fits = ids.rank == len(wanted) and all(
        tracer.same_size(a, b, args.span("ids"), "ids")
        for a, b in zip(ids.dims, wanted, strict=True)
    )
    if not fits:
        text = f"`ids` must have an id for each row or each element of `{name}`, but this is {ids}"
        problem = tracer.report.error("WG0406", text, args.span("ids"), str(ids))
        raise Stop(problem.also(args.span(name), str(values)))


FUNCTIONS = (
    BuiltinFunction("gather", "table, ids", gather),
    BuiltinFunction("take_along_axis", "x, ids, axis=-1", take_along_axis),
    BuiltinFunction("scatter_add", "x, ids, values, axis=0", scatter_add),
    BuiltinFunction("segment_sum", "x, ids, size", segment_sum),
)
