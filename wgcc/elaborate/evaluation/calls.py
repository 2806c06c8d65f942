"""Calls and members: finds what is called, collects the arguments, and calls it."""

from __future__ import annotations

from wgcc.elaborate.declarations.constructors import with_arguments
from wgcc.elaborate.declarations.layers import instantiate
from wgcc.elaborate.declarations.optimizers import step_number
from wgcc.elaborate.evaluation.foreign import report_foreign_method
from wgcc.elaborate.evaluation.functions import call_function
from wgcc.elaborate.operators import arithmetic
from wgcc.elaborate.operators.operands import plain
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Arguments, Given, bind
from wgcc.elaborate.tracing.context import Context, has_failed
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.values import (
    FAILED,
    AnyValue,
    BoolValue,
    Builtin,
    DtypeValue,
    Failed,
    FunctionValue,
    LayerType,
    LayerValue,
    ListValue,
    ModuleValue,
    Number,
    OptimizerValue,
    Tensor,
    describe,
)
from wgcc.errors import Span
from wgcc.syntax import ast

OPTIMIZER_MEMBERS = ("grad_norm", "lr", "step")


def call(context: Context, function: AnyValue, arguments: Arguments, at: Span) -> AnyValue:
    given = [*arguments.positional, *arguments.named.values()]
    if has_failed(function) or any(has_failed(item.value) for item in given):
        raise Stop
    context.here = at
    if isinstance(function, Builtin):
        return _call_builtin(context, function, arguments, at)
    if isinstance(function, FunctionValue):
        return call_function(context, function, arguments, at, function.name)
    if isinstance(function, LayerValue):
        return _call_layer(context, function, arguments, at)
    if isinstance(function, LayerType):
        return _create(context, function, arguments, at)
    if isinstance(function, DtypeValue):
        return _convert(context, function.name, arguments, at)
    problem = context.report.error("WG0217", f"{describe(function)} cannot be called", at)
    if isinstance(function, ListValue):
        problem.help("iterate over it: `for block in blocks { x = block(x) }`")
    raise Stop(problem)


def callable_member(context: Context, node: ast.Call) -> tuple[AnyValue, Given | None]:
    """What is called, and the first argument in `x.f(a)`.

    That is `f(x, a)` for a tensor `x`; of a list there is only `list.append(item)`.
    """
    function = node.function
    if not isinstance(function, ast.Member):
        return context.value(function), None
    value = context.require(context.value(function.value))
    report_foreign_method(context, node, value)
    tensor = context.read(value)
    if isinstance(tensor, ListValue) and function.name.text == "append":
        return context.scope.find("append") or FAILED, Given(value, function.value.span)
    if not isinstance(tensor, Tensor):
        return member(context, value, function.name), None
    scope, name = context.scope, function.name.text
    found = scope.find(name)
    if isinstance(found, Failed):
        raise Stop
    if not isinstance(found, (FunctionValue, Builtin)):
        kinds = (FunctionValue, Builtin)
        options = (option for option in scope.visible() if isinstance(scope.find(option), kinds))
        unknown = context.report.unknown("WG0201", "function", name, options, function.name)
        raise Stop(unknown)
    return found, Given(tensor, function.value.span)


def member(context: Context, value: AnyValue, name: ast.Identifier) -> AnyValue:
    """`value.name`."""
    report = context.report
    if isinstance(value, LayerValue):
        members = value.scope.names
        what = f"member of `{value.definition.name}`:"
        return _one_of(context, members, "WG0213", what, name, "no such member")
    if isinstance(value, ModuleValue):
        defined = {key: value.file.scope.names[key] for key in value.file.places}
        what = f"name in `{value.file.source.name}`:"
        return _one_of(context, defined, "WG0703", what, name, "not defined there")
    if isinstance(value, OptimizerValue):
        return _optimizer_member(context, value, name)
    if isinstance(value, ListValue):
        text = f"this is a list of {len(value.items)}, which has no member `{name.text}`"
        problem = report.error("WG0213", text, name)
        raise Stop(problem.help("select one with `[0]`, or iterate over them with `for`"))
    tensor = context.read(value)
    whose = "a tensor" if isinstance(tensor, Tensor) else describe(value)
    problem = report.error("WG0213", f"{whose} has no member `{name.text}`", name)
    raise Stop(problem)


def _one_of(
    context: Context,
    members: dict[str, AnyValue],
    code: str,
    what: str,
    name: ast.Identifier,
    label: str,
) -> AnyValue:
    if name.text not in members:
        raise Stop(context.report.unknown(code, what, name.text, members, name, label))
    return context.require(members[name.text])


def _optimizer_member(
    context: Context, optimizer: OptimizerValue, name: ast.Identifier
) -> AnyValue:
    if name.text in optimizer.results:
        return context.require(optimizer.results[name.text])
    if name.text == "step" and optimizer.results:
        return step_number(context, optimizer)
    if name.text in OPTIMIZER_MEMBERS:
        when = f"after `minimize ... with {optimizer.name}`"
        text = f"`{optimizer.name}.{name.text}` is only known {when}"
        raise Stop(context.report.error("WG0307", text, name))
    what = f"member of optimizer `{optimizer.name}`:"
    raise Stop(
        context.report.unknown("WG0213", what, name.text, OPTIMIZER_MEMBERS, name, "no such member")
    )


def _call_builtin(context: Context, builtin: Builtin, arguments: Arguments, at: Span) -> AnyValue:
    bound = bind(context.report, builtin.function, _read(context, arguments), at)
    result = builtin.function.call(context, bound, at)
    if isinstance(result, (Dim, Number, BoolValue)):
        known = [value for value in bound.values.values() if isinstance(value, (Dim, Number))]
        context.choose(at, *map(plain, known))
    return result


def _read(context: Context, arguments: Arguments) -> Arguments:
    def read(given: Given) -> Given:
        return Given(context.read(given.value), given.span, given.name_span)

    named = {name: read(given) for name, given in arguments.named.items()}
    return Arguments([read(given) for given in arguments.positional], named)


def _call_layer(context: Context, layer: LayerValue, arguments: Arguments, at: Span) -> AnyValue:
    name, members = layer.definition.name, layer.scope.names
    forward = members.get("forward")
    if isinstance(forward, Failed):
        raise Stop
    if isinstance(forward, FunctionValue):
        return call_function(context, forward, arguments, at, name, layer)
    if forward is not None:
        text = f"`forward` of layer `{name}` is not a function"
        raise Stop(context.report.error("WG0216", text, at))
    text = f"layer `{name}` has no `forward`, so it cannot be called"
    problem = context.report.error("WG0216", text, at)
    functions = [key for key, value in members.items() if isinstance(value, FunctionValue)]
    if functions:
        problem.help("it has " + ", ".join(f"`{function}`" for function in functions))
    raise Stop(problem)


def _create(context: Context, layer: LayerType, arguments: Arguments, at: Span) -> AnyValue:
    """Only a test may create a layer inside an expression."""
    name = layer.definition.name
    if not context.in_test:
        text = f"layer `{name}` is created in the middle of a computation"
        problem = context.report.error("WG0215", text, at)
        advice = f"declare it as a member, `name: {name}[...]`, and call it by that name"
        raise Stop(problem.help(f"{advice}: parameters need a name"))
    complete = with_arguments(context, layer, arguments, sizes_given=layer.sizes is not None)
    return instantiate(context, complete, context.fresh_path(name.lower()), False, at)


def _convert(context: Context, dtype: str, arguments: Arguments, at: Span) -> AnyValue:
    if len(arguments.positional) != 1 or arguments.named:
        raise Stop(context.report.error("WG0207", f"`{dtype}(...)` converts one value", at))
    operand = _read(context, arguments).positional[0]
    return arithmetic.convert(context, dtype, operand, at)
