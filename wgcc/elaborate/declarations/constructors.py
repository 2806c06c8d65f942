"""`module.Layer[sizes](options)`: which layer it names, with which sizes and options.

The arguments of a call as they are written, evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Callable

from wgcc.elaborate.declarations.signatures import size_of
from wgcc.elaborate.from_pytorch import PREFIXES
from wgcc.elaborate.from_pytorch.calls import PytorchCall
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Arguments, Given, plural
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.foreign_calls import explain_unknown, foreign_call, is_written
from wgcc.elaborate.tracing.values import AnyValue, Failed, LayerType, ModuleValue, describe
from wgcc.errors import Diagnostic, Span
from wgcc.syntax import ast


def gather_arguments(
    context: Context,
    arguments: tuple[ast.Argument, ...],
    evaluate: Callable[[ast.Expr], AnyValue] | None = None,
) -> Arguments:
    """`evaluate` is `context.value` unless given."""
    evaluate = evaluate or context.value
    positional: list[Given] = []
    named: dict[str, Given] = {}
    for argument in arguments:
        value = evaluate(argument.value)
        if argument.name is None:
            if named:
                text = "positional arguments come before named ones"
                raise Stop(context.report.error("WG0214", text, argument.value))
            positional.append(Given(value, argument.value.span))
            continue
        name = argument.name.text
        if name in named:
            context.report.error("WG0204", f"argument `{name}` is given twice", argument.name)
        named[name] = Given(value, argument.value.span, argument.name.span)
    return Arguments(positional, named)


def layer_type_of(context: Context, constructor: ast.Constructor) -> LayerType:
    """`module.Layer[sizes](arguments)` in the current scope, not created yet."""
    layer = _named_layer(context, constructor)
    if constructor.sizes is not None:
        sizes = tuple(size_of(context, size) for size in constructor.sizes)
        layer = LayerType(layer.definition, sizes, layer.arguments)
    if constructor.arguments is None:
        return layer
    arguments = gather_options(context, constructor.arguments)
    for given in (*arguments.positional, *arguments.named.values()):
        context.require(given.value)
    return with_arguments(context, layer, arguments, constructor.sizes is not None)


def gather_options(context: Context, arguments: tuple[ast.Argument, ...]) -> Arguments:
    """The options of a layer."""
    return gather_arguments(context, arguments, lambda expr: option_value(context, expr))


def option_value(context: Context, expr: ast.Expr) -> AnyValue:
    """An option or its default: `Linear[D, D](bias = false)` is a layer type here, not a layer."""
    if not (isinstance(expr, ast.Call) and _is_layer_type(context, expr.function)):
        return context.value(expr)
    layer = context.value(expr.function)
    if not isinstance(layer, LayerType):
        return layer
    arguments = gather_options(context, expr.arguments)
    return with_arguments(context, layer, arguments, layer.sizes is not None)


def _is_layer_type(context: Context, expr: ast.Expr) -> bool:
    named = expr.value if isinstance(expr, ast.Index) else expr
    if isinstance(named, ast.Member) and isinstance(named.value, ast.Name):
        module = context.scope.find(named.value.text)
        inside = module.file.scope.names if isinstance(module, ModuleValue) else {}
        return isinstance(inside.get(named.name.text), LayerType)
    return isinstance(named, ast.Name) and isinstance(context.scope.find(named.text), LayerType)


def _named_layer(context: Context, constructor: ast.Constructor) -> LayerType:
    scope, path = context.scope, constructor.path
    name = ".".join(part.text for part in path)
    value = scope.find(path[0].text)
    for part in path[1:]:
        inside = value.file.scope.names if isinstance(value, ModuleValue) else {}
        value = inside.get(part.text)
    at = Span(path[0].span.source, path[0].span.start, path[-1].span.end)
    if isinstance(value, Failed):
        raise Stop
    if value is None:
        raise Stop(_unknown(context, constructor, name, at))
    if not isinstance(value, LayerType):
        text = f"`{name}` is {describe(value)}, not a layer"
        raise Stop(context.report.error("WG0202", text, at))
    return value


def _unknown(context: Context, constructor: ast.Constructor, name: str, at: Span) -> Diagnostic:
    """`nn.Linear(3, 4)`, or a layer that is not there at all."""
    scope, path = context.scope, constructor.path
    options = (n for n in scope.visible() if isinstance(scope.find(n), LayerType))
    prefixed = len(path) > 1 and path[0].text in PREFIXES
    last = path[-1].text if prefixed else name
    problem = context.report.unknown("WG0202", "layer", name, [] if prefixed else options, at)
    if prefixed and isinstance(scope.find(last), LayerType):
        problem.help(f"names have no prefix here: write `{last}`", (at, last))
    if constructor.arguments is not None:
        is_known = is_written(context, last)
        call = foreign_call(context, constructor.arguments) if is_known else PytorchCall()
        explain_unknown(context, problem, last, call, constructor.span)
    return problem


def with_arguments(
    context: Context, layer: LayerType, arguments: Arguments, sizes_given: bool
) -> LayerType:
    """`Layer[…](arguments)`: options by name, in addition to those the type already has."""
    node = layer.definition.node
    names = [value.name.text for value in node.values]
    if len(arguments.positional) > len(names):
        count = len(arguments.positional)
        what = f"`{layer.definition.name}` takes {plural(len(names), 'argument')}"
        extra = arguments.positional[len(names)]
        problem = context.report.error("WG0207", f"{what}, but {count} were given", extra.span)
        if node.sizes and not sizes_given:
            sizes = [item.span.text for item in arguments.positional[: len(node.sizes)]]
            layer_text = f"{layer.definition.name}[{', '.join(sizes)}]"
            problem.help(f"sizes go in square brackets: `{layer_text}`")
        raise Stop(problem)
    by_position = dict(zip(names, arguments.positional, strict=False))
    options = {**layer.arguments, **by_position, **arguments.named}
    return LayerType(layer.definition, layer.sizes, options)
