"""Explicit gradients, order of loops, comparison in tests: `stop_grad grad reversed close`;
whole layers as values, and lists that grow: `params lerp append`; a look inside: `capture`;
bodies in WGSL: `wgsl`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.operators.arithmetic import elementwise
from wgcc.elaborate.operators.broadcasting import TensorExpr
from wgcc.elaborate.operators.operands import plain, with_lists
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction, Given, as_sequence
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    LayerContents,
    ListValue,
    Number,
    ParamRef,
    RangeValue,
    Tensor,
    Text,
    TupleValue,
    describe,
    difference,
    holds_layers,
    layer_tensors,
    stored_in,
)
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS

# The last word of a capture's name, which the path of its layer precedes.
CAPTURE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


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
    wrt = expect.argument(args, "wrt")
    several = isinstance(wrt.value, (ListValue, TupleValue))
    items = wrt.value.items if isinstance(wrt.value, (ListValue, TupleValue)) else (wrt.value,)
    tensors = [expect.as_tensor(tracer, Given(item, wrt.span), "wrt", FLOATS) for item in items]
    outputs = [(tensor.dims, tensor.dtype) for tensor in tensors]
    results = tracer.emit_many("grad", value, *tensors, outputs=outputs)
    return TupleValue(results) if several else results[0]


def close(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
    """Whether no two elements differ by more than `tol`."""
    tolerance = expect.number(tracer, args, "tol")
    a, b = expect.argument(args, "a"), expect.argument(args, "b")
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


def params(tracer: Tracer, args: BoundArgs, at: Span) -> ListValue:
    """The parameters in a layer, frozen ones too, in the order of their declarations."""
    layer = expect.argument(args, "layer")
    if not holds_layers(layer.value):
        text = f"`params` lists the parameters of a layer, but this is {describe(layer.value)}"
        raise Stop(tracer.report.error("WG0501", text, layer.span))
    refs = stored_in(layer.value).values()
    return ListValue(tuple(ref for ref in refs if isinstance(ref, ParamRef)))


def lerp(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
    """start + weight (end - start), of numbers, tensors or whole layers."""
    start, end = expect.argument(args, "start"), expect.argument(args, "end")
    weight = expect.argument(args, "weight")
    values = start.value, end.value, weight.value
    if all(isinstance(value, (Dim, Number)) for value in values):
        a, b, w = (plain(value) for value in values if isinstance(value, (Dim, Number)))
        return Number(a + w * (b - a))
    if holds_layers(start.value) or holds_layers(end.value):
        return _between_layers(tracer, start, end, weight)
    return _between(tracer, start, end, weight, at)


def _between(tracer: Tracer, start: Given, end: Given, weight: Given, at: Span) -> Tensor:
    distance = Given(elementwise(tracer, "lerp", "sub", end, start, at), end.span)
    step = Given(elementwise(tracer, "lerp", "mul", distance, weight, at), weight.span)
    return elementwise(tracer, "lerp", "add", start, step, at)


def _between_layers(tracer: Tracer, start: Given, end: Given, weight: Given) -> LayerContents:
    for side in (start, end):
        if not holds_layers(side.value):
            text = f"`lerp` of a layer needs a second layer, but this is {describe(side.value)}"
            raise Stop(tracer.report.error("WG0501", text, side.span))
    first, second = layer_tensors(tracer, start.value), layer_tensors(tracer, end.value)
    problem = difference(stored_in(start.value), second)
    if problem:
        text = f"`lerp` needs layers with the same parameters and state: {problem}"
        raise Stop(tracer.report.error("WG0315", text, end.span))
    share = expect.as_tensor(tracer, weight, "weight", ("f32",), rank=0)
    return LayerContents(_mix(tracer, first, second, share))


def _mix(
    tracer: Tracer, first: Mapping[str, Tensor], second: Mapping[str, Tensor], weight: Tensor
) -> dict[str, Tensor]:
    """Whole numbers and bools have nothing in between: they are those of the second."""
    mixed = dict(second)
    for name, tensor in second.items():
        if tensor.dtype in FLOATS:
            start, end = TensorExpr(tracer, first[name]), TensorExpr(tracer, tensor)
            share = TensorExpr(tracer, weight).cast(tensor.dtype)
            mixed[name] = (start + (end - start) * share).tensor
    return mixed


def append(tracer: Tracer, args: BoundArgs, at: Span) -> ListValue:
    """A list with one more item."""
    items, item = expect.argument(args, "list"), expect.argument(args, "item")
    if not isinstance(items.value, ListValue):
        text = f"`append` adds to a list, but this is {describe(items.value)}"
        problem = tracer.report.error("WG0501", text, items.span)
        raise Stop(problem.help("begin with an empty list: `xs = []`"))
    return ListValue((*items.value.items, item.value))


def wgsl(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
    """The body of a function, written in WGSL, in a file beside the model."""
    return tracer.own_kernel(args, at)


def capture(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x itself; runtimes show it under this name, after that of the layer."""
    x, name = expect.tensor(tracer, args, "x"), args["name"]
    if not isinstance(name, Text) or not CAPTURE_NAME.fullmatch(name.value):
        shown = f'"{name.value}"' if isinstance(name, Text) else describe(name)
        text = f"`capture` needs a name of letters, digits and _, but this is {shown}"
        problem = tracer.report.error("WG0209", text, args.span("name"))
        raise Stop(problem.help('write it in quotes: `capture(x, "scores")`'))
    path = f"{tracer.prefix}.{name.value}" if tracer.prefix else name.value
    tracer.trace.keep_name(x.value, path, captured=True)
    return x


FUNCTIONS = (
    BuiltinFunction("wgsl", "file, function=none", wgsl),
    BuiltinFunction("reversed", "sequence", backwards),
    BuiltinFunction("stop_grad", "x", stop_grad),
    BuiltinFunction("grad", "value, wrt", grad),
    BuiltinFunction("close", "a, b, tol=1e-5", close),
    BuiltinFunction("params", "layer", params),
    BuiltinFunction("lerp", "start, end, weight", lerp),
    BuiltinFunction("append", "list, item", append),
    BuiltinFunction("capture", "x, name", capture),
)
