"""Explicit gradients, order of loops, comparison in tests: `stop_grad grad reversed close`."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.operators.arithmetic import elementwise
from wgcc.elaborate.operators.operands import plain, with_lists
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction, Given, as_sequence
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    ListValue,
    Number,
    RangeValue,
    Tensor,
    TupleValue,
    describe,
)
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS


def stop_grad(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
    """x itself, but with a gradient of zero."""
    if isinstance(args["x"], (Dim, Number)):
        return args["x"]
    x = expect.tensor(tracer, args, "x")
    return tracer.emit("stop_grad", x, dims=x.dims, dtype=x.dtype)


def grad(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
    """The derivative of one number with respect to a tensor, or to each of several."""
    value = expect.tensor(tracer, args, "value", FLOATS)
    if value.dims:
        text = f"`grad` differentiates one number, but this is {value}"
        problem = tracer.report.error("WG0305", text, args.span("value"), str(value))
        raise Stop(problem.help(f"reduce it first, e.g. `sum({args.text('value')})`"))
    wrt = expect.given(args, "wrt")
    several = isinstance(wrt.value, (ListValue, TupleValue))
    items = wrt.value.items if isinstance(wrt.value, (ListValue, TupleValue)) else (wrt.value,)
    tensors = [expect.checked(tracer, Given(item, wrt.span), "wrt", FLOATS) for item in items]
    outputs = [(tensor.dims, tensor.dtype) for tensor in tensors]
    results = tracer.emit_many("grad", value, *tensors, outputs=outputs)
    return TupleValue(results) if several else results[0]


def close(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
    """Whether no two elements differ by more than `tol`."""
    tolerance = expect.number(tracer, args, "tol")
    a, b = expect.given(args, "a"), expect.given(args, "b")
    if isinstance(a.value, (Dim, Number)) and isinstance(b.value, (Dim, Number)):
        return BoolValue(abs(plain(a.value) - plain(b.value)) <= tolerance)
    a, b = (_in_floats(tracer, operand) for operand in with_lists(tracer, a, b))
    difference = TensorExpr(tracer, elementwise(tracer, "close", "sub", a, b, at))
    return difference.apply("abs").compare("le", tolerance).reduce("all").tensor


def _in_floats(tracer: Tracer, got: Given) -> Given:
    """The difference of unsigned numbers would wrap around."""
    value = got.value
    if not isinstance(value, Tensor) or value.dtype in FLOATS:
        return got
    return Given(tracer.cast(value, "f32"), got.span)


def backwards(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
    """A range or a list of layers from its last to its first."""
    sequence = as_sequence(tracer, args["sequence"], args.span("sequence"))
    if isinstance(sequence, RangeValue):
        return RangeValue(sequence.numbers[::-1])
    if sequence is not None:
        return type(sequence)(sequence.items[::-1])
    text = f"`reversed` takes a range or a list, but this is {describe(args['sequence'])}"
    raise Stop(tracer.report.error("WG0308", text, args.span("sequence")))


FUNCTIONS = (
    BuiltinFunction("reversed", "sequence", backwards),
    BuiltinFunction("stop_grad", "x", stop_grad),
    BuiltinFunction("grad", "value, wrt", grad),
    BuiltinFunction("close", "a, b, tol=1e-5", close),
)
