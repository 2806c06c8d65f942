"""`sample`: draws a class number from scores, as the argmax of scores plus Gumbel noise."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.reductions import arg_reduce
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Number, Tensor, describe
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS, INTEGERS

# Half the generator's resolution: keeps the logarithm of an exponential draw finite.
SMALLEST_DRAW = 2.0**-25
# Dividing by this gives the argmax, and does not overflow for realistic scores.
LOWEST_TEMPERATURE = 1e-6


def sample(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """A class number per row, with probability softmax(logits / temperature).

    `top_k` keeps only the k largest scores, `top_p` only the largest ones that together reach
    this probability. With `seed` the draw depends on that number alone.
    """
    logits = expect.tensor(tracer, args, "logits", FLOATS)
    if not logits.dims:
        text = f"`logits` needs an axis of classes, but this is {describe(logits)}"
        raise Stop(tracer.report.error("WG0415", text, args.span("logits")))
    scores = _with_temperature(tracer, args, TensorExpr(tracer, logits).cast("f32"))
    scores = _with_top_only(tracer, args, scores)
    draw = TensorExpr(tracer, tracer.random(scores.dims, "uniform", at, _seed(tracer, args)))
    # -log(1 - u) is exponentially distributed, and minus its logarithm is Gumbel noise.
    waiting = (-(-draw).apply("log1p")).apply("maximum", SMALLEST_DRAW)
    with_noise = scores - waiting.apply("log")
    return arg_reduce("argmax", with_noise, with_noise.rank - 1).tensor


def _with_temperature(tracer: Tracer, args: BoundArgs, scores: TensorExpr) -> TensorExpr:
    value = args["temperature"]
    if isinstance(value, (Dim, Number)):
        number = expect.number(tracer, args, "temperature")
        if number < 0:
            text = f"`temperature` must not be negative, but it is {number:g}"
            raise Stop(tracer.report.error("WG0503", text, args.span("temperature")))
        return scores if number == 1 else scores / max(number, LOWEST_TEMPERATURE)
    temperature = TensorExpr(tracer, expect.scalar(tracer, args, "temperature", "f32"))
    return scores / temperature.apply("maximum", LOWEST_TEMPERATURE)


def _with_top_only(tracer: Tracer, args: BoundArgs, scores: TensorExpr) -> TensorExpr:
    classes = scores.dims[-1]
    count = expect.whole(tracer, args, "top_k") if args["top_k"] is not None else None
    if count is not None and count.size < classes.size:
        kept = tracer.emit("keep_top_k", scores.tensor, dims=scores.dims, dtype="f32", k=count.size)
        scores = TensorExpr(tracer, kept)
    mass = _mass(tracer, args)
    if mass is not None:
        kept = tracer.emit("keep_top_p", scores.tensor, mass, dims=scores.dims, dtype="f32")
        scores = TensorExpr(tracer, kept)
    return scores


def _mass(tracer: Tracer, args: BoundArgs) -> Tensor | None:
    value = args["top_p"]
    if value is None:
        return None
    if not isinstance(value, (Dim, Number)):
        return expect.scalar(tracer, args, "top_p", "f32")
    number = expect.number(tracer, args, "top_p")
    if not 0 < number <= 1:
        text = f"`top_p` must be above 0 and at most 1, but it is {number:g}"
        raise Stop(tracer.report.error("WG0503", text, args.span("top_p")))
    return tracer.constant(number, "f32") if number < 1 else None


def _seed(tracer: Tracer, args: BoundArgs) -> Tensor | None:
    if args["seed"] is None:
        return None
    if isinstance(args["seed"], Dim):
        return expect.scalar(tracer, args, "seed", "u32")
    seed = expect.tensor(tracer, args, "seed", INTEGERS, rank=0)
    return tracer.cast(seed, "u32")


FUNCTIONS = (
    BuiltinFunction("sample", "logits, temperature=1.0, top_k=none, top_p=none, seed=none", sample),
)
