"""`x ** y` by the cheapest ops: known small exponents become products and roots."""

from __future__ import annotations

import math

from wgcc.elaborate.operators.broadcasting import aligned
from wgcc.elaborate.operators.numbers import plain
from wgcc.elaborate.operators.operands import numeric, same_dtype
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Given
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Number, Tensor
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS

ROOTS = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
# Beyond this a chain of products is neither faster nor more accurate than `pow`.
LARGEST_CHAIN = 16


def power(tracer: Tracer, base: Given, exponent: Given, at: Span) -> Tensor:
    if isinstance(exponent.value, (Dim, Number)):
        x = numeric(tracer, base, "**")
        return _constant_exponent(tracer, x, plain(exponent.value), at)
    y = _floats(tracer, numeric(tracer, exponent, "**"), exponent.span)
    if isinstance(base.value, (Dim, Number)):
        scalar = tracer.constant(float(plain(base.value)), y.dtype)
        return _pow(tracer, tracer.broadcast(scalar, y.dims), y)
    x = numeric(tracer, base, "**")
    same_dtype(tracer, "**", base, exponent, at)
    dims = aligned(tracer, "**", base, exponent, at)
    return _pow(tracer, tracer.broadcast(x, dims), tracer.broadcast(y, dims))


def whole_power(tracer: Tracer, x: Tensor, exponent: int) -> Tensor:
    """By repeated squaring: x ** 5 is x * (x ** 2) ** 2."""
    if exponent == 0:
        return tracer.broadcast(tracer.constant(1, x.dtype), x.dims)
    if exponent == 1:
        return x
    half = whole_power(tracer, x, exponent // 2)
    if x.dtype in FLOATS:
        result = tracer.emit("square", half, dims=x.dims, dtype=x.dtype)
    else:
        result = tracer.emit("mul", half, half, dims=x.dims, dtype=x.dtype)
    if exponent % 2:
        result = tracer.emit("mul", x, result, dims=x.dims, dtype=x.dtype)
    return result


def _constant_exponent(tracer: Tracer, x: Tensor, exponent: float, at: Span) -> Tensor:
    whole = math.isfinite(exponent) and exponent == int(exponent)
    if whole and 0 <= exponent <= LARGEST_CHAIN:
        return whole_power(tracer, x, int(exponent))
    _floats(tracer, x, at)
    if exponent in ROOTS:
        return tracer.emit(ROOTS[exponent], x, dims=x.dims, dtype=x.dtype)
    if whole and -LARGEST_CHAIN <= exponent < 0:
        below = whole_power(tracer, x, -int(exponent))
        return tracer.emit("reciprocal", below, dims=x.dims, dtype=x.dtype)
    scalar = tracer.constant(float(exponent), x.dtype)
    return _pow(tracer, x, tracer.broadcast(scalar, x.dims))


def _pow(tracer: Tracer, base: Tensor, exponent: Tensor) -> Tensor:
    return tracer.emit("pow", base, exponent, dims=exponent.dims, dtype=exponent.dtype)


def _floats(tracer: Tracer, x: Tensor, at: Span) -> Tensor:
    if x.dtype in FLOATS:
        return x
    text = f"`**` with {x} needs an exponent known at compile time, 0 to {LARGEST_CHAIN}"
    raise Stop(tracer.report.error("WG0501", text, at).help("convert first: `f32(...)`"))
