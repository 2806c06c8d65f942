"""Functions of network layers: `rms_norm layer_norm dropout`."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Number, Tensor, describe
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS


def rms_norm(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x / sqrt(mean(x²) + eps) * g, over the last axis."""
    return _norm(tracer, "rms_norm", args, ("g",))


def layer_norm(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """(x - mean) / sqrt(var + eps) * g + b, over the last axis."""
    return _norm(tracer, "layer_norm", args, ("g", "b"))


def _norm(tracer: Tracer, op: str, args: BoundArgs, names: tuple[str, ...]) -> Tensor:
    x = expect.tensor(tracer, args, "x", FLOATS)
    if not x.dims:
        text = f"`{op}` needs at least one axis, but this is {describe(x)}"
        raise Stop(tracer.report.error("WG0415", text, args.span("x")))
    scales = [expect.tensor(tracer, args, name, (x.dtype,), rank=1) for name in names]
    for name, scale in zip(names, scales, strict=True):
        if not tracer.same_size(scale.dims[0], x.dims[-1], args.span(name), f"`{op}`"):
            text = f"{op}: `{name}` must be as long as the last axis of `x`, {x.dims[-1].full}"
            found = tracer.report.error("WG0406", text, args.span(name), str(scale))
            raise Stop(found.also(args.span("x"), str(x)))
    eps = expect.number(tracer, args, "eps")
    if eps < 0:
        text = f"`eps` must not be negative, but it is {eps:g}"
        raise Stop(tracer.report.error("WG0503", text, args.span("eps")))
    return tracer.emit(op, x, *scales, dims=x.dims, dtype=x.dtype, eps=eps)


def dropout(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """While training each element is zero with probability p; the others are scaled by 1/(1-p)."""
    x = TensorExpr(tracer, expect.tensor(tracer, args, "x", FLOATS))
    if isinstance(args["p"], (Dim, Number)):
        rate = expect.number(tracer, args, "p")
        if not 0 <= rate < 1:
            text = f"the dropout rate must be at least 0 and below 1, but it is {rate:g}"
            raise Stop(tracer.report.error("WG0503", text, args.span("p")))
        if rate == 0 or not tracer.is_training():
            return x.tensor
    p = TensorExpr(tracer, expect.scalar(tracer, args, "p", "f32"))
    if not tracer.is_training():
        return x.tensor
    kept = TensorExpr(tracer, tracer.random(x.dims, "uniform", at)).compare("ge", p)
    scaled = x / (1.0 - p).cast(x.dtype)
    return kept.choose(scaled, 0.0).tensor


FUNCTIONS = (
    BuiltinFunction("rms_norm", "x, g, eps=1.1920929e-7", rms_norm),
    BuiltinFunction("layer_norm", "x, g, b, eps=1e-5", layer_norm),
    BuiltinFunction("dropout", "x, p=0.5", dropout),
)
