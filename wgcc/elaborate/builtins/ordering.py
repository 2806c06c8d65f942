"""Functions along one axis: sorting, the largest elements, running sums and their relatives."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.shapes import joined
from wgcc.elaborate.builtins.tensor_expr import TensorExpr, iota
from wgcc.elaborate.operators import broadcasting
from wgcc.elaborate.operators.broadcasting import aligned
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction, Given
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor, TupleValue
from wgcc.errors import Span
from wgcc.ir.dtypes import NUMBERS
from wgcc.ir.graph import FLOATS


def _along(op: str) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        x = expect.tensor(tracer, args, "x", FLOATS)
        axis = expect.axis(tracer, args, x)
        return tracer.emit(op, x, dims=x.dims, dtype=x.dtype, axis=axis)

    return BuiltinFunction(op, "x, axis=-1", call)


def cumprod(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The recurrence h[t] = x[t] h[t - 1] from h[0] = x[0]."""
    x = expect.tensor(tracer, args, "x", FLOATS)
    axis = expect.axis(tracer, args, x)
    size, one = x.dims[axis].size, Dim.literal(1)
    if size == 1:
        return x
    starts, steps = [int(number == axis) for number in range(x.rank)], [1] * x.rank
    later = broadcasting.part(tracer, x, axis, 1, x.dims[axis] - one)
    factors = broadcasting.place(tracer, later, starts, x.dims, steps)
    first = broadcasting.place(
        tracer, broadcasting.part(tracer, x, axis, 0, one), [0] * x.rank, x.dims, steps
    )
    return tracer.emit("scan", factors, first, dims=x.dims, dtype=x.dtype, axis=axis, reverse=False)


def normalize(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x divided by its Euclidean norm along the axes; a norm below `eps` counts as `eps`.

    In f32, because f16 has no number as small as eps².
    """
    given = expect.tensor(tracer, args, "x", FLOATS)
    x = TensorExpr(tracer, given).cast("f32")
    axes = expect.axes(tracer, args, given)
    squares = x.apply("square").sum(axes).keep(axes, x)
    # sqrt(max(s, eps^2)) is max(sqrt(s), eps), but has a finite slope at 0.
    unit = x * squares.apply("maximum", _least_square(tracer, args)).apply("rsqrt")
    return unit.cast(given.dtype).tensor


def cosine_similarity(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The cosine of the angle between a and b; a norm below `eps` counts as `eps`."""
    first = expect.tensor(tracer, args, "a", FLOATS)
    second = expect.tensor(tracer, args, "b", (first.dtype,))
    left, right = Given(first, args.span("a")), Given(second, args.span("b"))
    dims = aligned(tracer, "cosine_similarity", left, right, at)
    a, b = (TensorExpr(tracer, x).broadcast(dims).cast("f32") for x in (first, second))
    axes = [expect.axis(tracer, args, a.tensor)]
    least = _least_square(tracer, args)
    norms = [x.apply("square").sum(axes).apply("maximum", least) for x in (a, b)]
    cosine = (a * b).sum(axes) * norms[0].apply("rsqrt") * norms[1].apply("rsqrt")
    return cosine.cast(first.dtype).tensor


def _least_square(tracer: Tracer, args: BoundArgs) -> float:
    """eps². The square of 1e-12 is still a normal f32, unlike that of anything below 1.1e-19."""
    return max(expect.number(tracer, args, "eps"), 1.1e-19) ** 2


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
        return broadcasting.part(tracer, order, axis, 0, k)
    parts, rest = divmod(size, PART)
    found = [_largest_of_parts(tracer, x, axis, k, parts)]
    if rest:
        last = broadcasting.part(tracer, x, axis, parts * PART, Dim.literal(rest))
        least = k if k.size < rest else Dim.literal(rest)
        found.append(_moved(tracer, _largest(tracer, last, axis, least), parts * PART))
    candidates = joined(tracer, found, axis)
    values = _taken(tracer, x, candidates, axis)
    return _taken(tracer, candidates, _largest(tracer, values, axis, k), axis)


def _largest_of_parts(tracer: Tracer, x: Tensor, axis: int, k: Dim, parts: int) -> Tensor:
    count, each = Dim.literal(parts), Dim.literal(PART)
    before, after = x.dims[:axis], x.dims[axis + 1 :]
    whole = broadcasting.part(tracer, x, axis, 0, Dim.literal(parts * PART))
    rows = broadcasting.reshape(tracer, whole, [*before, count, each, *after])
    order = _order(tracer, rows, axis + 1, descending=True)
    best = TensorExpr(tracer, broadcasting.part(tracer, order, axis + 1, 0, k))
    firsts = (iota(tracer, count) * PART).reshape([count, *[Dim.literal(1)] * (1 + len(after))])
    return (best + firsts).reshape([*before, Dim.literal(parts * k.size), *after]).tensor


def _moved(tracer: Tracer, places: Tensor, by: int) -> Tensor:
    return (TensorExpr(tracer, places) + by).tensor


def _taken(tracer: Tracer, x: Tensor, places: Tensor, axis: int) -> Tensor:
    return tracer.emit("take_along", x, places, dims=places.dims, dtype=x.dtype, axis=axis)


def _with_values(tracer: Tracer, x: Tensor, places: Tensor, axis: int) -> TupleValue:
    return TupleValue((_taken(tracer, x, places, axis), places))


FUNCTIONS = (
    _along("softmax"),
    _along("log_softmax"),
    _along("cumsum"),
    BuiltinFunction("cumprod", "x, axis=-1", cumprod),
    BuiltinFunction("normalize", "x, axis=-1, eps=1e-12", normalize),
    BuiltinFunction("cosine_similarity", "a, b, axis=-1, eps=1e-8", cosine_similarity),
    BuiltinFunction("argsort", "x, axis=-1, descending=false", argsort),
    BuiltinFunction("sort", "x, axis=-1, descending=false", sort),
    BuiltinFunction("top_k", "x, k, axis=-1", top_k),
    BuiltinFunction("cummax", "x, axis=-1", cummax),
)
