"""Functions that put elements in order along an axis: `argsort sort top_k cummax`.

Those that give values and positions return both, as in PyTorch: `values, ids = sort(x)`.
"""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.operators import views
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor, TupleValue
from wgcc.errors import Span
from wgcc.ir.dtypes import NUMBERS


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
    order = _order(tracer, x, axis, descending=True)
    return _with_values(tracer, x, views.part(tracer, order, axis, 0, k), axis)


def cummax(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """The largest element up to each one, and its position."""
    x = expect.tensor(tracer, args, "x", NUMBERS)
    axis = expect.axis(tracer, args, x)
    places = tracer.emit("running_argmax", x, dims=x.dims, dtype="i32", axis=axis)
    return _with_values(tracer, x, places, axis)


def _order(tracer: Tracer, x: Tensor, axis: int, descending: bool) -> Tensor:
    return tracer.emit("argsort", x, dims=x.dims, dtype="i32", axis=axis, descending=descending)


def _with_values(tracer: Tracer, x: Tensor, places: Tensor, axis: int) -> TupleValue:
    values = tracer.emit("take_along", x, places, dims=places.dims, dtype=x.dtype, axis=axis)
    return TupleValue((values, places))


FUNCTIONS = (
    BuiltinFunction("argsort", "x, axis=-1, descending=false", argsort),
    BuiltinFunction("sort", "x, axis=-1, descending=false", sort),
    BuiltinFunction("top_k", "x, k, axis=-1", top_k),
    BuiltinFunction("cummax", "x, axis=-1", cummax),
)
