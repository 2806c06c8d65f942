"""Checks layers and functions that nothing uses, with placeholder sizes.

So libraries are checked, too, but for what depends on actual numbers (divisibility, bounds).
"""

from __future__ import annotations

from wgcc.elaborate.declarations.layers import instantiate
from wgcc.elaborate.declarations.signatures import dim_of, dtype_of
from wgcc.elaborate.evaluation.functions import call_function
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Arguments, Given
from wgcc.elaborate.tracing.context import Context, Parts
from wgcc.elaborate.tracing.dims import Dim, sizes_of
from wgcc.elaborate.tracing.scope import Scope
from wgcc.elaborate.tracing.traced_graph import TracedGraph
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    FunctionValue,
    LayerDefinition,
    LayerType,
    LoadedFile,
    Number,
    Tensor,
    TupleValue,
)
from wgcc.ir.graph import FLOATS, INTEGERS, TensorType, Value
from wgcc.syntax import ast


def check_unused(context: Context, file: LoadedFile) -> None:
    for definition in file.layers:
        functions = [m for m in definition.node.members if isinstance(m, ast.Function)]
        reached = all(id(function) in context.called for function in functions)
        if id(definition.node) not in context.instantiated or not reached:
            _check_layer(context, definition)
    for function in file.functions:
        if id(function.node) not in context.called:
            with context.separate(Parts(), TracedGraph(dry=True), file.scope):
                _check_function(context, function)


def _check_layer(context: Context, definition: LayerDefinition) -> None:
    node = definition.node
    options = _options(node.values)
    if options is None:
        return
    sizes = tuple(Dim.placeholder(size.text) for size in node.sizes)
    layer = LayerType(definition, sizes, options)
    with context.separate(Parts(), TracedGraph(dry=True), definition.file.scope):
        try:
            created = instantiate(context, layer, definition.name, False, node.name.span)
        except Stop:
            return
        for value in list(created.scope.names.values()):
            own = isinstance(value, FunctionValue) and value.owner is created
            if isinstance(value, FunctionValue) and own and id(value.node) not in context.called:
                _check_function(context, value)


def _options(parameters: tuple[ast.ValueParam, ...]) -> dict[str, Given] | None:
    """Placeholder options where there is no default; None if one has no placeholder."""
    options = {}
    for parameter in parameters:
        if parameter.default is not None and parameter.kind != "dim":
            continue
        value = _placeholder_option(parameter)
        if value is None:
            return None
        options[parameter.name.text] = Given(value, parameter.name.span)
    return options


def _placeholder_option(parameter: ast.ValueParam) -> AnyValue | None:
    kind = parameter.kind
    if isinstance(kind, ast.TupleType):
        return None
    word = kind if isinstance(kind, str) else kind.name.text
    if word == "dim" or word in INTEGERS:
        return Dim.placeholder(parameter.name.text)
    if word in FLOATS:
        return Number(0.5)
    return BoolValue(True) if word == "bool" else None


def _check_function(context: Context, function: FunctionValue) -> None:
    scope = Scope(function.scope)
    for size in function.node.sizes:
        scope.bind(size.text, Dim.placeholder(size.text))
    try:
        with context.within(scope, ""):
            given = _placeholder_arguments(context, function.node)
        if given is not None:
            at = function.node.name.span
            call_function(context, function, Arguments(given), at, function.name)
    except Stop:
        return


def _placeholder_arguments(context: Context, node: ast.Function) -> list[Given] | None:
    """Tensors for the arguments, up to the first with a default that may decide what is traced."""
    rest = Dim.placeholder("..")
    given: list[Given] = []
    for parameter in node.values:
        name, kind = parameter.name, parameter.kind
        if parameter.default is not None and _decides(kind):
            return given
        if isinstance(kind, str):
            return None
        given.append(Given(_placeholder(context, name.text, kind, rest), name.span))
    return given


def _decides(kind: ast.TypeExpr | ast.TupleType | str) -> bool:
    """A flag or a size is mostly used as one that is known at compile time."""
    return isinstance(kind, str) or (isinstance(kind, ast.TypeExpr) and kind.name.text == "bool")


def _placeholder(
    context: Context, name: str, kind: ast.TypeExpr | ast.TupleType, rest: Dim
) -> AnyValue:
    if isinstance(kind, ast.TupleType):
        items = tuple(_placeholder(context, name, field.type, rest) for field in kind.fields)
        return items[0] if len(items) == 1 else TupleValue(items)
    dims = tuple(
        rest if isinstance(item, ast.Rest) else dim_of(context, item) for item in kind.dims
    )
    value = Value(name, TensorType(sizes_of(dims), dtype_of(context, kind.name)))
    return Tensor(value, dims)
