"""Functions along an axis: `softmax log_softmax cumsum cumprod normalize cosine_similarity`."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.operators import views
from wgcc.elaborate.operators.broadcasting import aligned
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction, Given
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Span
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
    later = views.part(tracer, x, axis, 1, x.dims[axis] - one)
    factors = views.place(tracer, later, starts, x.dims, steps)
    first = views.place(tracer, views.part(tracer, x, axis, 0, one), [0] * x.rank, x.dims, steps)
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


FUNCTIONS = (
    _along("softmax"),
    _along("log_softmax"),
    _along("cumsum"),
    BuiltinFunction("cumprod", "x, axis=-1", cumprod),
    BuiltinFunction("normalize", "x, axis=-1, eps=1e-12", normalize),
    BuiltinFunction("cosine_similarity", "a, b, axis=-1, eps=1e-8", cosine_similarity),
)
