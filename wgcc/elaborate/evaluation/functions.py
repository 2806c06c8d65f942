"""Calls of functions written in `.wg`: sizes are inferred, and the body is inlined.

`fn f(x: …) -> … { … } grad g { … }` states its own gradient: the block computes, from the gradient
of each result, one gradient for each argument that holds floats. It sees the arguments and
everything that the function's body has bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from wgcc.elaborate.declarations.signatures import (
    Signature,
    dtype_of,
    match_argument,
    match_result,
    match_type,
)
from wgcc.elaborate.evaluation.statements import return_help, run_block
from wgcc.elaborate.report import Place, Stop
from wgcc.elaborate.tracing.arguments import Arguments, Given, plural
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.values import (
    FAILED,
    AnyValue,
    Failed,
    FunctionValue,
    LayerValue,
    ListValue,
    Scope,
    Tensor,
    TupleValue,
)
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS
from wgcc.ops import OPS
from wgcc.syntax import ast
from wgcc.syntax.tree_text import walk


def call_function(
    context: Context,
    function: FunctionValue,
    arguments: Arguments,
    at: Span,
    shown: str,
    layer: LayerValue | None = None,
) -> AnyValue:
    """`shown` is its name in messages; `layer` is given when a layer itself is called."""
    node = function.node
    context.spend(at)
    _refuse_recursion(context, function, at)
    context.called.add(id(node))
    given = _by_parameter(context, node, arguments, shown)
    signature = Signature(shown, {size.text for size in node.sizes}, layer=layer)
    context.functions.append(function)
    try:
        with (
            context.bounded(at),
            context.report.inside(at),
            context.within(Scope(function.scope), _prefix(context, function)),
        ):
            _bind_parameters(context, node, given, signature, at)
            _require_sizes(context, node, signature)
            with remat_region(context, function) as region:
                gradient = node.gradient and CustomGradient(context, function, node.gradient)
                result = _run(context, function, signature)
                return region.results(gradient.applied(result) if gradient else result)
    finally:
        context.functions.pop()


def match_results(
    context: Context,
    signature: Signature,
    result: ast.TypeExpr | ast.TupleType,
    value: AnyValue,
    at: Place,
) -> AnyValue:
    """The results of a function or entry, matched with its declaration."""
    name = signature.name
    values = value.items if isinstance(value, TupleValue) else (value,)
    fields = _result_fields(name, result)
    if len(values) != len(fields):
        declared = "one result" if len(fields) == 1 else f"{len(fields)} results"
        text = f"`{name}` declares {declared} but returns {len(values)}"
        found = context.report.error("WG0602", text, at)
        raise Stop(found.also(result.span, "declared here"))

    def match(type_: ast.TypeExpr, item: AnyValue, what: str) -> AnyValue:
        return match_result(context, signature, type_, context.require(item), at, what)

    results = tuple(
        match_type(context, type_, item, at, what, match)
        for item, (what, type_) in zip(values, fields, strict=True)
    )
    return results[0] if len(results) == 1 else TupleValue(results)


def _result_fields(
    name: str, result: ast.TypeExpr | ast.TupleType
) -> Sequence[tuple[str, ast.TypeExpr | ast.TupleType]]:
    """What each result is called in messages, and its type."""
    plain = f"the result of `{name}`"
    if isinstance(result, ast.TypeExpr):
        return [(plain, result)]
    only = result.fields[0].type
    if len(result.fields) == 1 and isinstance(only, ast.TupleType):
        return _result_fields(name, only)
    return [
        (f"output `{field.name.text}` of `{name}`" if field.name else plain, field.type)
        for field in result.fields
    ]


def _refuse_recursion(context: Context, function: FunctionValue, at: Span) -> None:
    same = (outer for outer in context.functions if outer.node is function.node)
    if not any(outer.owner is function.owner for outer in same):
        return
    problem = context.report.error("WG0801", f"`{function.name}` calls itself", at)
    reason = "every program must finish in a fixed number of steps"
    raise Stop(problem.note(f"{reason}, so functions may not be recursive"))


def _by_parameter(
    context: Context, node: ast.Function, arguments: Arguments, shown: str
) -> dict[str, Given]:
    names = [parameter.name.text for parameter in node.values]
    count = len(arguments.positional)
    if count > len(names):
        text = f"`{shown}` takes {plural(len(names), 'argument')}, but {count} were given"
        raise Stop(context.report.error("WG0207", text, arguments.positional[len(names)].span))
    given = dict(zip(names, arguments.positional, strict=False))
    for name, argument in arguments.named.items():
        at = argument.name_span or argument.span
        if name not in names:
            what = f"argument of `{shown}`:"
            problem = context.report.unknown("WG0207", what, name, names, at, "no such argument")
            raise Stop(problem.note(f"`{shown}` takes ({', '.join(names)})"))
        if name in given:
            text = f"argument `{name}` of `{shown}` is given twice"
            raise Stop(context.report.error("WG0207", text, at))
        given[name] = argument
    return given


def _bind_parameters(
    context: Context,
    node: ast.Function,
    given: dict[str, Given],
    signature: Signature,
    at: Span,
) -> None:
    for parameter in node.values:
        name = parameter.name.text
        if name in given:
            value, span = given[name].value, given[name].span
        elif parameter.default is not None:
            value, span = context.require(context.value(parameter.default)), at
        else:
            text = f"`{signature.name}` needs the argument `{name}`"
            raise Stop(context.report.error("WG0208", text, at))
        context.scope.bind(name, match_argument(context, signature, parameter, value, span))


def _require_sizes(context: Context, node: ast.Function, signature: Signature) -> None:
    for size in node.sizes:
        if size.text not in signature.unbound:
            continue
        context.scope.bind(size.text, FAILED)
        text = f"the size `{size.text}` of `{node.name.text}` cannot be inferred from its arguments"
        problem = context.report.error("WG0420", text, size)
        problem.help(f"use it in an argument's type, e.g. `x: f32[{size.text}]`, or remove it")


def _run(context: Context, function: FunctionValue, signature: Signature) -> AnyValue:
    node, body = function.node, function.node.body
    inner = Signature(function.name, rest=signature.rest)
    if not isinstance(body, ast.Block):
        value = context.evaluate(body)
        return match_results(context, inner, node.result, value, body) if node.result else value
    returned = run_block(context, body)
    if returned is None:
        if node.result is not None:
            if any(isinstance(piece, ast.Broken) for piece in walk(node)):
                raise Stop
            text = f"`{function.name}` never returns its result"
            problem = context.report.error("WG0601", text, node.name)
            problem.also(node.result.span, "a result is declared here")
            raise Stop(return_help(problem, node))
        return TupleValue()
    if isinstance(returned.value, Failed):
        raise Stop
    if node.result is None:
        return returned.value
    return match_results(context, inner, node.result, returned.value, returned.at)


def _prefix(context: Context, function: FunctionValue) -> str:
    """A method's values are named after its layer, others after the caller and the function."""
    if function.owner is not None:
        return function.owner.path
    return f"{context.prefix}.{function.name}" if context.prefix else function.name


class RematRegion:
    """`number` is None if nothing is marked."""

    def __init__(self, context: Context, number: int | None) -> None:
        self.context = context
        self.number = number

    def arguments(self, function: FunctionValue) -> None:
        scope = self.context.scope
        for parameter in function.node.values:
            name = parameter.name.text
            scope.bind(name, self._marked(scope.names[name], is_end=False))

    def results(self, value: AnyValue) -> AnyValue:
        return self._marked(value, is_end=True)

    def _marked(self, value: AnyValue, is_end: bool) -> AnyValue:
        if self.number is None:
            return value
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
            return TupleValue(tuple(self._marked(item, is_end) for item in value.items))
        if isinstance(value, ListValue):
            return ListValue(tuple(self._marked(item, is_end) for item in value.items))
        return value


@contextmanager
def remat_region(context: Context, function: FunctionValue) -> Iterator[RematRegion]:
    """The call of a `remat` layer, after its arguments are bound. Nested ones are not marked."""
    wanted = function.owner is not None and function.owner.remat
    if not wanted or context.in_remat:
        yield RematRegion(context, None)
        return
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
            if not isinstance(p.kind, str)
            for leaf in _float_leaves(context, p.kind, self.arguments[p.name.text])
        ]
        self.first_node = len(context.trace.builder.nodes)

    def applied(self, result: AnyValue) -> AnyValue:
        """The results, with this gradient."""
        results = list(_float_tensors(result))
        if not results:
            return result
        self._refuse_parameters()
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
        found = list(_leaves(returned.value))
        if len(found) != len(self.floats):
            takes, gives = plural(len(self.floats), "argument"), plural(len(found), "gradient")
            text = f"`{self.function.name}` has {takes} of floats, but this is {gives}"
            error = context.report.error("WG0316", text, returned.at)
            raise Stop(error.help("return one gradient for each, in order; `0.0` for none"))
        return [
            self._fitted(item, leaf, returned.at)
            for item, leaf in zip(found, self.floats, strict=True)
        ]

    def _fitted(self, item: AnyValue, leaf: AnyValue, at: Span) -> Tensor:
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

    def _refuse_parameters(self) -> None:
        """A trained parameter that the body reads itself would get no gradient, in silence."""
        trace, report = self.context.trace, self.context.report
        given = {trace.own(leaf.value) for leaf in self.floats if isinstance(leaf, Tensor)}
        known = self.context.parts.params
        params = {value: known.get(path) for value, path in trace.current_contents().items()}
        for node in trace.builder.nodes[self.first_node :]:
            for value in node.inputs:
                ref = params.get(value)
                if ref is None or ref.frozen or value in given or OPS[node.op].stops_gradient:
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
