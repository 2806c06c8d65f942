"""Functions that work element by element: `exp … expm1`, `maximum minimum clamp where`, activations
made of other ops, as in PyTorch; norms and dropout.

No gradient of an activation is NaN, however large x is.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.operators.arithmetic import elementwise
from wgcc.elaborate.operators.broadcasting import TensorExpr, broadcast_dims
from wgcc.elaborate.operators.operands import adapt_operands, plain
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction, Given
from wgcc.elaborate.tracing.dims import DIFF, Dim, compare
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import AnyValue, BoolValue, ListValue, Number, Tensor, describe
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS, TensorType
from wgcc.ops import OPS, ShapeError
from wgcc.ops.registry import NumberRule


def _unary(op: str, rule: NumberRule) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
        value = args["x"]
        if isinstance(value, (Dim, Number)):
            return _of_number(tracer, op, value, rule, at)
        return _of_tensor(tracer, op, args)

    return BuiltinFunction(op, "x", call)


def _of_number(
    tracer: Tracer, op: str, value: Dim | Number, rule: NumberRule, at: Span
) -> AnyValue:
    if isinstance(value, Dim) and _takes(op, "i32"):
        return value if op == "abs" and value.size >= 0 else Dim.literal(int(rule(value.size)))
    try:
        return Number(float(rule(float(plain(value)))))
    except (ArithmeticError, ValueError):
        text = f"`{op}` of {describe(value)} is not a number"
        raise Stop(tracer.report.error("WG0503", text, at)) from None


def _takes(op: str, dtype: str) -> bool:
    try:
        OPS[op].infer(TensorType((), dtype))
    except ShapeError:
        return False
    return True


def _of_tensor(tracer: Tracer, op: str, args: BoundArgs) -> Tensor:
    # Whole numbers in a list are floats where the function needs those.
    listed = isinstance(args["x"], ListValue) and not _takes(op, "i32")
    x = expect.tensor(tracer, args, "x", FLOATS if listed else ())
    if not _takes(op, x.dtype):
        text = f"`{op}` works on floats, but this is {x}"
        problem = tracer.report.error("WG0501", text, args.span("x"), str(x))
        raise Stop(problem.help(f"convert it: `f32({args.text('x')})`"))
    if op == "square" and x.dtype not in FLOATS:
        return tracer.emit("mul", x, x, dims=x.dims, dtype=x.dtype)
    return tracer.emit(op, x, dims=x.dims, dtype=x.dtype)


def gelu(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
    """x times the normal distribution function of x; `approximate` uses tanh, as GPT-2 does."""
    rough = expect.flag(tracer, args, "approximate")
    value = args["x"]
    if isinstance(value, (Dim, Number)):
        return _of_number(tracer, "gelu", value, _gelu_tanh if rough else _gelu, at)
    x = TensorExpr(tracer, expect.tensor(tracer, args, "x", FLOATS))
    if not rough:
        return x.apply("gelu").tensor
    inner = (x + x * x.apply("square") * 0.044715) * math.sqrt(2.0 / math.pi)
    return (x * 0.5 * (inner.apply("tanh") + 1.0)).tensor


def _gelu(x: float) -> float:
    return 0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0)))


def _gelu_tanh(x: float) -> float:
    return 0.5 * x * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def _extreme(op: str, rule: Callable[[float, float], float]) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
        a, b = expect.argument(args, "a"), expect.argument(args, "b")
        x, y = a.value, b.value
        if isinstance(x, (Dim, Number)) and isinstance(y, (Dim, Number)):
            return x if rule(plain(x), plain(y)) == plain(x) else y
        return elementwise(tracer, op, op, a, b, at)

    return BuiltinFunction(op, "a, b", call)


def atan2(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
    """The angle of the point (x, y), from -π to π."""
    y, x = expect.argument(args, "y"), expect.argument(args, "x")
    if isinstance(y.value, (Dim, Number)) and isinstance(x.value, (Dim, Number)):
        return Number(math.atan2(plain(y.value), plain(x.value)))
    for name, got in (("y", y), ("x", x)):
        if isinstance(got.value, Tensor):
            expect.as_tensor(tracer, got, name, FLOATS)
    return elementwise(tracer, "atan2", "atan2", y, x, at)


def clamp(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
    """`low` where x is below it, `high` where x is above it, else x; one of them may be missing."""
    if args["low"] is None and args["high"] is None:
        text = "`clamp` needs `low`, `high` or both"
        raise Stop(tracer.report.error("WG0208", text, at).help(f"`clamp({args.text('x')}, 0.0)`"))
    x = expect.argument(args, "x")
    limits = [name for name in ("low", "high") if args[name] is not None]
    values = [x.value, *(expect.argument(args, name).value for name in limits)]
    if all(isinstance(value, (Dim, Number)) for value in values):
        for name in limits:
            x = Given(_limit(x.value, expect.argument(args, name).value, name == "low"), x.span)
        return x.value
    for name in limits:
        limit = expect.argument(args, name)
        beyond = elementwise(tracer, "clamp", "lt" if name == "low" else "gt", x, limit, at, "bool")
        x = Given(_choose(tracer, "clamp", Given(beyond, at), limit, x, at), x.span)
    return x.value


def _limit(value: AnyValue, limit: AnyValue, is_low: bool) -> AnyValue:
    beyond = _order(value) < _order(limit) if is_low else _order(value) > _order(limit)
    return limit if beyond else value


def _order(value: AnyValue) -> float:
    assert isinstance(value, (Dim, Number))
    return plain(value)


def where(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
    """`a` where the condition holds, else `b`, element by element."""
    condition, a, b = (expect.argument(args, name) for name in ("condition", "a", "b"))
    if isinstance(condition.value, BoolValue):
        return a.value if condition.value.value else b.value
    chosen = expect.as_tensor(tracer, condition, "condition", ("bool",))
    return _choose(tracer, "where", Given(chosen, condition.span), a, b, at)


def _choose(tracer: Tracer, op: str, condition: Given, yes: Given, no: Given, at: Span) -> Tensor:
    """The `where` op with three operands that broadcast."""
    a, b = adapt_operands(tracer, op, yes, no, at, bools=True)
    dims = broadcast_dims(tracer, op, Given(a, yes.span), Given(b, no.span), at)
    both = Given(Tensor(a.value, dims), yes.span)
    dims = broadcast_dims(tracer, op, both, condition, at)
    assert isinstance(condition.value, Tensor)
    tensors = [tracer.broadcast(tensor, dims) for tensor in (condition.value, a, b)]
    return tracer.emit("where", *tensors, dims=dims, dtype=a.dtype)


def _bits(name: str, op: str) -> BuiltinFunction:
    """Whether elements are NaN or finite, by their bits: adapters may compare otherwise."""

    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        x = expect.tensor(tracer, args, "x", FLOATS)
        return tracer.emit(op, x, dims=x.dims, dtype="bool")

    return BuiltinFunction(name, "x", call)


def elu(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
    """The op `elu` is x above 0: `alpha` scales the part below."""
    alpha, value = expect.number(tracer, args, "alpha"), args["x"]
    if isinstance(value, (Dim, Number)):
        number = float(plain(value))
        return Number(number if number > 0 else alpha * math.expm1(number))
    x = TensorExpr(tracer, expect.tensor(tracer, args, "x", FLOATS))
    below = x.apply("elu")
    return (below if alpha == 1.0 else x.compare("gt", 0.0).choose(x, below * alpha)).tensor


def prelu(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """leaky_relu with a trained slope: one for all features, or one for each."""
    x = TensorExpr(tracer, expect.tensor(tracer, args, "x", FLOATS))
    slope = TensorExpr(tracer, expect.tensor(tracer, args, "a", (x.dtype,)))
    if slope.rank and not _fits_features(x, slope):
        text = f"prelu: `a` is one slope or one for each feature of {x.tensor}"
        raise Stop(tracer.report.error("WG0406", text, args.span("a"), str(slope.tensor)))
    return x.compare("gt", 0.0).choose(x, x * slope).tensor


def _fits_features(x: TensorExpr, slope: TensorExpr) -> bool:
    if slope.rank != 1 or not x.rank:
        return False
    return slope.dims[0].size == 1 or compare(slope.dims[0], x.dims[-1]) is not DIFF


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
            problem = tracer.report.error("WG0406", text, args.span(name), str(scale))
            raise Stop(problem.also(args.span("x"), str(x)))
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
    *(_unary(op.name, op.number) for op in OPS.values() if op.number is not None),
    BuiltinFunction("gelu", "x, approximate=false", gelu),
    _extreme("maximum", max),
    _extreme("minimum", min),
    BuiltinFunction("atan2", "y, x", atan2),
    BuiltinFunction("clamp", "x, low=none, high=none", clamp),
    BuiltinFunction("where", "condition, a, b", where),
    _bits("isnan", "is_nan"),
    _bits("isfinite", "is_finite"),
    BuiltinFunction("elu", "x, alpha=1.0", elu),
    BuiltinFunction("prelu", "x, a", prelu),
    BuiltinFunction("rms_norm", "x, g, eps=1.1920929e-7", rms_norm),
    BuiltinFunction("layer_norm", "x, g, b, eps=1e-5", layer_norm),
    BuiltinFunction("dropout", "x, p=0.5", dropout),
)
