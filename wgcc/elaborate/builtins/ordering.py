"""Functions that put elements in order along an axis: `argsort sort top_k cummax`.

Those that give values and positions return both, as in PyTorch: `values, ids = sort(x)`.
"""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.shapes import joined
from wgcc.elaborate.builtins.tensor_expr import TensorExpr, iota
from wgcc.elaborate.operators import views
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor, TupleValue
from wgcc.errors import Span
from wgcc.ir.dtypes import NUMBERS

# Longer axes are not sorted whole for their largest elements, but in parts.
LONG, PART = 2048, 1024


def argsort(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The positions of the elements in order; equal ones stay in theirs."""
    x = expect.tensor(tracer, args, "x")
    axis = expect.axis(tracer, args, x)
    return _order(tracer, x, axis, expect.flag(tracer, args, "descending"))


def sort(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """The elements in order, and their positions."""
    x = expect.tensor(tracer, args, "x")
    axis = expect.axis(tracer, args, x)
    order = _order(tracer, x, axis, expect.flag(tracer, args, "descending"))
    return _with_values(tracer, x, order, axis)


def top_k(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """The k largest elements, the largest first, and their positions."""
    x = expect.tensor(tracer, args, "x")
    axis = expect.axis(tracer, args, x)
    k = expect.whole(tracer, args, "k")
    if k.size > x.dims[axis].size and not tracer.generic:
        text = f"`k` is {k.full}, but there are only {x.dims[axis].full} elements along this axis"
        raise Stop(tracer.report.error("WG0503", text, args.span("k")).also(args.span("x"), str(x)))
    return _with_values(tracer, x, _largest(tracer, x, axis, k), axis)


def cummax(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """The largest element up to each one, and its position."""
    x = expect.tensor(tracer, args, "x", NUMBERS)
    axis = expect.axis(tracer, args, x)
    places = tracer.emit("running_argmax", x, dims=x.dims, dtype="i32", axis=axis)
    return _with_values(tracer, x, places, axis)


def _order(tracer: Tracer, x: Tensor, axis: int, descending: bool) -> Tensor:
    return tracer.emit("argsort", x, dims=x.dims, dtype="i32", axis=axis, descending=descending)


def _largest(tracer: Tracer, x: Tensor, axis: int, k: Dim) -> Tensor:
    """The positions of the k largest elements, the largest first.

    Of a long axis, first the k largest of each part are found: parts are sorted side by side, in
    workgroup memory. They stay in order, so that the first of equal elements comes first.
    """
    size = x.dims[axis].size
    if size <= LONG or 2 * k.size > PART or tracer.generic:
        order = _order(tracer, x, axis, descending=True)
        return views.part(tracer, order, axis, 0, k)
    parts, rest = divmod(size, PART)
    found = [_largest_of_parts(tracer, x, axis, k, parts)]
    if rest:
        last = views.part(tracer, x, axis, parts * PART, Dim.literal(rest))
        least = k if k.size < rest else Dim.literal(rest)
        found.append(_moved(tracer, _largest(tracer, last, axis, least), parts * PART))
    candidates = joined(tracer, found, axis)
    values = _taken(tracer, x, candidates, axis)
    return _taken(tracer, candidates, _largest(tracer, values, axis, k), axis)


def _largest_of_parts(tracer: Tracer, x: Tensor, axis: int, k: Dim, parts: int) -> Tensor:
    count, each = Dim.literal(parts), Dim.literal(PART)
    before, after = x.dims[:axis], x.dims[axis + 1 :]
    whole = views.part(tracer, x, axis, 0, Dim.literal(parts * PART))
    rows = views.reshape(tracer, whole, [*before, count, each, *after])
    order = _order(tracer, rows, axis + 1, descending=True)
    best = TensorExpr(tracer, views.part(tracer, order, axis + 1, 0, k))
    firsts = (iota(tracer, count) * PART).reshape([count, *[Dim.literal(1)] * (1 + len(after))])
    return (best + firsts).reshape([*before, Dim.literal(parts * k.size), *after]).tensor


def _moved(tracer: Tracer, places: Tensor, by: int) -> Tensor:
    return (TensorExpr(tracer, places) + by).tensor


def _taken(tracer: Tracer, x: Tensor, places: Tensor, axis: int) -> Tensor:
    return tracer.emit("take_along", x, places, dims=places.dims, dtype=x.dtype, axis=axis)


def _with_values(tracer: Tracer, x: Tensor, places: Tensor, axis: int) -> TupleValue:
    return TupleValue((_taken(tracer, x, places, axis), places))


FUNCTIONS = (
    BuiltinFunction("argsort", "x, axis=-1, descending=false", argsort),
    BuiltinFunction("sort", "x, axis=-1, descending=false", sort),
    BuiltinFunction("top_k", "x, k, axis=-1", top_k),
    BuiltinFunction("cummax", "x, axis=-1", cummax),
)
