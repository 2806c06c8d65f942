"""Functions along an axis that keep the shape: `softmax log_softmax cumsum normalize`."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
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


def normalize(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x divided by its Euclidean norm along the axes; a norm below `eps` counts as `eps`."""
    x = TensorExpr(tracer, expect.tensor(tracer, args, "x", FLOATS))
    axes = expect.axes(tracer, args, x.tensor)
    squares = x.apply("square").sum(axes).keep(axes, x)
    # sqrt(max(s, eps^2)) is max(sqrt(s), eps), but has a finite slope at 0. The square of 1e-12
    # is still a normal f32, unlike that of anything below 1.1e-19.
    least = max(expect.number(tracer, args, "eps"), 1.1e-19) ** 2
    return (x * squares.apply("maximum", least).apply("rsqrt")).tensor


FUNCTIONS = (
    _along("softmax"),
    _along("log_softmax"),
    _along("cumsum"),
    BuiltinFunction("normalize", "x, axis=-1, eps=1e-12", normalize),
)
