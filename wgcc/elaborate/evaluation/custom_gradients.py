"""How functions are differentiated: `remat` layers, and gradients of their own.

`fn f(x: …) -> … { … } grad g { … }`: the block computes, from the gradient of each result, one
gradient for each argument that holds floats. It sees the arguments and everything that the
function's body has bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wgcc.elaborate.declarations.signatures import (
    dtype_of,
)
from wgcc.elaborate.evaluation.statements import run_block
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import plural
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.values import (
    AnyValue,
    Failed,
    FunctionValue,
    ListValue,
    Scope,
    Tensor,
    TupleValue,
)
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS
from wgcc.ops import OPS
from wgcc.syntax import ast


class RematRegion:
    """A call whose values are marked with a `number`."""

    def __init__(self, context: Context, number: int) -> None:
        self.context = context
        self.number = number

    def arguments(self, function: FunctionValue) -> None:
        scope = self.context.scope
        for parameter in function.node.values:
            name = parameter.name.text
            scope.bind(name, self._mark(scope.names[name], is_end=False))

    def results(self, value: AnyValue) -> AnyValue:
        return self._mark(value, is_end=True)

    def _mark(self, value: AnyValue, is_end: bool) -> AnyValue:
        if isinstance(value, Tensor):
            return self.context.emit(
                "remat",
                value,
                dims=value.dims,
                dtype=value.dtype,
                region=self.number,
                is_end=is_end,
            )
        if isinstance(value, TupleValue):
            return TupleValue(tuple(self._mark(item, is_end) for item in value.items))
        if isinstance(value, ListValue):
            return ListValue(tuple(self._mark(item, is_end) for item in value.items))
        return value


@contextmanager
def remat_region(context: Context, function: FunctionValue) -> Iterator[RematRegion]:
    """The call of a `remat` layer, after its arguments are bound."""
    context.remat_regions += 1
    context.in_remat = True
    try:
        region = RematRegion(context, context.remat_regions)
        region.arguments(function)
        yield region
    finally:
        context.in_remat = False


class CustomGradient:
    """The custom gradient of one call; made when the arguments are bound, before the body runs."""

    def __init__(self, context: Context, function: FunctionValue, gradient: ast.Gradient) -> None:
        self.context = context
        self.function = function
        self.gradient = gradient
        parameters = function.node.values
        self.arguments = {p.name.text: context.scope.names[p.name.text] for p in parameters}
        self.floats = [
            leaf
            for p in parameters
            if not isinstance(p.kind, (str, ast.OneOf))
            for leaf in _float_leaves(context, p.kind, self.arguments[p.name.text])
        ]
        self.first_node = len(context.trace.builder.nodes)

    def attach_to(self, result: AnyValue) -> AnyValue:
        """The results of the function, with this gradient attached."""
        results = list(_float_tensors(result))
        if not results:
            return result
        self._refuse_parameters()
        self._refuse_locals()
        unknown = [self._unknown(tensor) for tensor in results]
        gradients = self._gradients(_with_floats(result, iter(unknown)))
        wanted = [
            (leaf, gradient)
            for leaf, gradient in zip(self.floats, gradients, strict=True)
            if isinstance(leaf, Tensor)
        ]
        if not wanted:
            return result
        marked = self.context.emit_many(
            "custom_grad",
            *results,
            *unknown,
            *(leaf for leaf, _ in wanted),
            *(gradient for _, gradient in wanted),
            outputs=[(tensor.dims, tensor.dtype) for tensor in results],
            results=len(results),
            arguments=len(wanted),
        )
        return _with_floats(result, iter(marked))

    def _unknown(self, tensor: Tensor) -> Tensor:
        return self.context.emit("cotangent", tensor, dims=tensor.dims, dtype=tensor.dtype)

    def _gradients(self, arriving: AnyValue) -> list[Tensor]:
        context, gradient = self.context, self.gradient
        writes = dict(context.trace.writes)
        scope = Scope(context.scope, self.arguments)
        self._bind_arriving(scope, arriving)
        with context.within(scope, context.prefix):
            returned = run_block(context, gradient.body)
        if context.trace.writes != writes:
            text = f"the gradient of `{self.function.name}` must not write state"
            raise Stop(context.report.error("WG0316", text, gradient.body))
        if returned is None:
            text = f"the gradient of `{self.function.name}` never returns"
            raise Stop(context.report.error("WG0601", text, gradient))
        if isinstance(returned.value, Failed):
            raise Stop
        gradients = list(_leaves(returned.value))
        if len(gradients) != len(self.floats):
            takes, gives = plural(len(self.floats), "argument"), plural(len(gradients), "gradient")
            text = f"`{self.function.name}` has {takes} of floats, but this is {gives}"
            error = context.report.error("WG0316", text, returned.at)
            raise Stop(error.help("return one gradient for each, in order; `0.0` for none"))
        return [
            self._fit(item, leaf, returned.at)
            for item, leaf in zip(gradients, self.floats, strict=True)
        ]

    def _fit(self, item: AnyValue, leaf: AnyValue, at: Span) -> Tensor:
        dims, dtype = (leaf.dims, leaf.dtype) if isinstance(leaf, Tensor) else ((), "f32")
        return self.context.fit(self.context.read(item), dtype, dims, at)

    def _bind_arriving(self, scope: Scope, arriving: AnyValue) -> None:
        """One name for each result that holds floats."""
        parts = arriving.items if isinstance(arriving, TupleValue) else (arriving,)
        parts = tuple(part for part in parts if any(_float_tensors(part)))
        names = self.gradient.names
        if len(names) != len(parts):
            count = plural(len(parts), "result")
            text = f"`{self.function.name}` has {count} of floats, but {len(names)} are named here"
            raise Stop(self.context.report.error("WG0316", text, names[-1]))
        for name, part in zip(names, parts, strict=True):
            scope.bind(name.text, part)

    def _refuse_locals(self) -> None:
        """A local of the function around it would not get a gradient either."""
        if not self.function.is_inner:
            return
        trace = self.context.trace
        nodes = trace.builder.nodes[self.first_node :]
        inside = {value for node in nodes for value in node.outputs}
        inside |= {trace.own(leaf.value) for leaf in self.floats if isinstance(leaf, Tensor)}
        for node in nodes:
            for value in node.inputs:
                is_known = value in inside or value.dtype not in FLOATS
                if is_known or OPS[node.op].stops_gradient or value in trace.params.values():
                    continue
                text = f"the gradient of `{self.function.name}` leaves out a local from outside"
                problem = self.context.report.error("WG0316", text, self.gradient)
                problem.also(node.span or self.gradient.span, "it is used here")
                raise Stop(problem.help("make it an argument, or use `stop_grad(...)` of it"))

    def _refuse_parameters(self) -> None:
        """A trained parameter that the body reads itself would get no gradient, in silence."""
        trace, report = self.context.trace, self.context.report
        arguments = {trace.own(leaf.value) for leaf in self.floats if isinstance(leaf, Tensor)}
        known = self.context.parts.params
        params = {value: known.get(path) for value, path in trace.current_contents().items()}
        for node in trace.builder.nodes[self.first_node :]:
            for value in node.inputs:
                ref = params.get(value)
                if ref is None or ref.frozen or value in arguments or OPS[node.op].stops_gradient:
                    continue
                text = f"the gradient of `{self.function.name}` leaves out parameter `{ref.path}`"
                problem = report.error("WG0316", text, self.gradient)
                problem.also(node.span or ref.span, "it is used here")
                raise Stop(problem.help("make it an argument, or use `stop_grad(...)` of it"))


def _leaves(value: AnyValue) -> Iterator[AnyValue]:
    if isinstance(value, TupleValue):
        for item in value.items:
            yield from _leaves(item)
    else:
        yield value


def _float_tensors(value: AnyValue) -> Iterator[Tensor]:
    for leaf in _leaves(value):
        if isinstance(leaf, Tensor) and leaf.dtype in FLOATS:
            yield leaf


def _float_leaves(
    context: Context, kind: ast.TypeExpr | ast.TupleType, value: AnyValue
) -> Iterator[AnyValue]:
    """The parts of an argument that are declared as floats, numbers included."""
    if isinstance(kind, ast.TypeExpr):
        if dtype_of(context, kind.name) in FLOATS:
            yield value
        return
    items = value.items if isinstance(value, TupleValue) else (value,)
    for field, item in zip(kind.fields, items, strict=True):
        yield from _float_leaves(context, field.type, item)


def _with_floats(value: AnyValue, new: Iterator[Tensor]) -> AnyValue:
    """The same value with other tensors of floats, in order."""
    if isinstance(value, TupleValue):
        return TupleValue(tuple(_with_floats(item, new) for item in value.items))
    return next(new) if isinstance(value, Tensor) and value.dtype in FLOATS else value
