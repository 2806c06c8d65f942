"""Whole layers as values, and lists that grow: `params lerp append`."""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.operators.arithmetic import elementwise
from wgcc.elaborate.operators.operands import plain
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction, Given
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import (
    AnyValue,
    LayerContents,
    ListValue,
    Number,
    ParamRef,
    Tensor,
    describe,
    difference,
    holds_layers,
    layer_tensors,
    stored_in,
)
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS


def params(tracer: Tracer, args: BoundArgs, at: Span) -> ListValue:
    """The parameters in a layer, frozen ones too, in the order of their declarations."""
    layer = expect.given(args, "layer")
    if not holds_layers(layer.value):
        text = f"`params` lists the parameters of a layer, but this is {describe(layer.value)}"
        raise Stop(tracer.report.error("WG0501", text, layer.span))
    found = stored_in(layer.value).values()
    return ListValue(tuple(ref for ref in found if isinstance(ref, ParamRef)))


def lerp(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
    """start + weight (end - start), of numbers, tensors or whole layers."""
    start, end = expect.given(args, "start"), expect.given(args, "end")
    weight = expect.given(args, "weight")
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
    share = expect.checked(tracer, weight, "weight", ("f32",), rank=0)
    return LayerContents(_mixed(tracer, first, second, share))


def _mixed(
    tracer: Tracer, first: Mapping[str, Tensor], second: Mapping[str, Tensor], weight: Tensor
) -> dict[str, Tensor]:
    """Whole numbers and bools have nothing in between: they are those of the second."""
    found = dict(second)
    for name, tensor in second.items():
        if tensor.dtype in FLOATS:
            start, end = TensorExpr(tracer, first[name]), TensorExpr(tracer, tensor)
            share = TensorExpr(tracer, weight).cast(tensor.dtype)
            found[name] = (start + (end - start) * share).tensor
    return found


def append(tracer: Tracer, args: BoundArgs, at: Span) -> ListValue:
    """A list with one more item."""
    items, item = expect.given(args, "list"), expect.given(args, "item")
    if not isinstance(items.value, ListValue):
        text = f"`append` adds to a list, but this is {describe(items.value)}"
        problem = tracer.report.error("WG0501", text, items.span)
        raise Stop(problem.help("begin with an empty list: `xs = []`"))
    return ListValue((*items.value.items, item.value))


FUNCTIONS = (
    BuiltinFunction("params", "layer", params),
    BuiltinFunction("lerp", "start, end, weight", lerp),
    BuiltinFunction("append", "list, item", append),
)
