"""Functions that repeat, reverse, move or drop elements: `expand tile flip roll tril triu`."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr, iota
from wgcc.elaborate.operators import broadcasting
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import ListValue, Tensor, TupleValue
from wgcc.errors import Span

ONE = Dim.literal(1)


def expand(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x in a larger shape: axes of size 1 are repeated, and new ones come in front."""
    x = expect.tensor(tracer, args, "x")
    wanted = expect.dims(tracer, args, "shape")
    new = len(wanted) - x.rank
    if new < 0:
        text = f"`expand` keeps all axes: {x} has {expect.plural_axes(x.rank)}"
        raise Stop(tracer.report.error("WG0415", text, args.span("shape")))
    dims = [_expanded(tracer, args, x, number - new, dim) for number, dim in enumerate(wanted)]
    return tracer.broadcast(x, dims)


def _expanded(tracer: Tracer, args: BoundArgs, x: Tensor, axis: int, wanted: Dim) -> Dim:
    """-1 keeps the size of an axis."""
    have, at = x.dims[axis] if axis >= 0 else None, args.span("shape")
    if wanted.is_literal and wanted.size == -1:
        if have is not None:
            return have
        text = "-1 keeps the size of an axis, but this axis is new"
        raise Stop(tracer.report.error("WG0415", text, at))
    if wanted.size < 1:
        text = f"every size must be at least 1, or -1 to keep it, but this is {wanted.size}"
        raise Stop(tracer.report.error("WG0415", text, at))
    if have is None or have.size == 1 or tracer.same_size(have, wanted, at, "`expand`"):
        return wanted
    text = f"axis {axis} of {x} is {have.full}; only an axis of size 1 becomes {wanted.full}"
    problem = tracer.report.error("WG0406", text, at)
    raise Stop(problem.also(args.span("x"), str(x)))


def tile(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x repeated as a whole along each axis; fewer numbers than axes are those of the last axes."""
    x = expect.tensor(tracer, args, "x")
    counts = _numbers(tracer, args, "counts", 1)
    new = max(len(counts) - x.rank, 0)
    sizes = [*[ONE] * new, *x.dims]
    counts = [*[ONE] * (len(sizes) - len(counts)), *counts]
    # [a, b] is repeated as [1, a, 1, b].
    apart = [dim for size in sizes for dim in (ONE, size)]
    together = [dim for pair in zip(counts, sizes, strict=True) for dim in pair]
    repeated = tracer.broadcast(broadcasting.reshape(tracer, x, apart), together)
    dims = [product(pair) for pair in zip(counts, sizes, strict=True)]
    return broadcasting.reshape(tracer, repeated, dims)


def flip(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The elements in reverse order along the axes, all of them if none are given."""
    x = expect.tensor(tracer, args, "x")
    return broadcasting.flip(tracer, x, expect.axes(tracer, args, x))


def roll(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """Elements moved on along an axis; what leaves at the end enters in front."""
    x = expect.tensor(tracer, args, "x")
    if args["axis"] is None:
        flat = broadcasting.reshape(tracer, x, [product(x.dims)])
        (shift,) = _shifts(tracer, args, 1)
        return broadcasting.reshape(tracer, _rolled(tracer, flat, 0, shift), x.dims)
    axes = _axes_as_given(tracer, args, x)
    for axis, shift in zip(axes, _shifts(tracer, args, len(axes)), strict=True):
        x = _rolled(tracer, x, axis, shift)
    return x


def _rolled(tracer: Tracer, x: Tensor, axis: int, shift: Dim) -> Tensor:
    by = shift.size % x.dims[axis].size
    if by == 0:
        return x
    return tracer.emit("roll", x, dims=x.dims, dtype=x.dtype, axis=axis, shift=by)


def _axes_as_given(tracer: Tracer, args: BoundArgs, x: Tensor) -> list[int]:
    """In the order of the source, because each has its own shift."""
    value = args["axis"]
    if not isinstance(value, (TupleValue, ListValue)):
        return [expect.axis(tracer, args, x)]
    expect.axes(tracer, args, x)
    return [expect.axis_of(tracer, x, item, args.span("axis")) for item in value.items]


def _shifts(tracer: Tracer, args: BoundArgs, count: int) -> list[Dim]:
    found = _numbers(tracer, args, "shift", -(2**31))
    if len(found) == count:
        return found
    text = f"`roll` needs one shift for each axis, but there are {len(found)} for {count}"
    raise Stop(tracer.report.error("WG0415", text, args.span("shift")))


def _numbers(tracer: Tracer, args: BoundArgs, name: str, least: int) -> list[Dim]:
    """A whole number, or several of them."""
    value = args[name]
    items = value.items if isinstance(value, (TupleValue, ListValue)) else (value,)
    return [expect.checked_whole(tracer, item, name, args.span(name), least) for item in items]


def _triangle(name: str, comparison: str) -> BuiltinFunction:
    """`comparison` of column and row, moved by `diagonal`, says which elements stay."""

    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        x = TensorExpr(tracer, expect.tensor(tracer, args, "x"))
        if x.rank < 2:
            text = f"`{name}` needs rows and columns, but this is {x.tensor}"
            raise Stop(tracer.report.error("WG0415", text, args.span("x"), str(x.tensor)))
        diagonal = expect.whole(tracer, args, "diagonal", least=-(2**31)).size
        rows = iota(tracer, x.dims[-2]).new_axis(1)
        kept = (iota(tracer, x.dims[-1]) - diagonal).compare(comparison, rows)
        return kept.choose(x, 0).tensor

    return BuiltinFunction(name, "x, diagonal=0", call)


FUNCTIONS = (
    BuiltinFunction("expand", "x, shape", expand),
    BuiltinFunction("tile", "x, counts", tile),
    BuiltinFunction("flip", "x, axis=none", flip),
    BuiltinFunction("roll", "x, shift, axis=none", roll),
    _triangle("tril", "le"),
    _triangle("triu", "ge"),
)
