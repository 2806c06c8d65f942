"""Evaluates each kind of expression, with calls and members: finds what is called, collects the
arguments, and calls it. Operators and indexing are in `operators/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wgcc.elaborate.declarations.constants import is_true
from wgcc.elaborate.declarations.constructors import (
    gather_arguments,
    gather_options,
    with_arguments,
)
from wgcc.elaborate.declarations.layers import instantiate
from wgcc.elaborate.declarations.optimizers import step_number
from wgcc.elaborate.declarations.signatures import size_of
from wgcc.elaborate.evaluation.foreign import (
    NAMES_OF_OTHER_LANGUAGES,
    explain_failed_call,
    explain_member,
    explain_name,
    report_foreign_call,
    report_foreign_method,
    report_none_in_index,
    report_prefixed,
)
from wgcc.elaborate.evaluation.functions import call_function
from wgcc.elaborate.evaluation.iteration import range_value
from wgcc.elaborate.operators import arithmetic, indexing
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
    Text,
    TrainingFlag,
    TupleValue,
    TypeValue,
    describe,
)
from wgcc.errors import Diagnostic, Span
from wgcc.syntax import ast

# Sizes and counts stay far below; larger numbers would only make the compiler slow.
LARGEST_WHOLE = 2**62


def value_of(context: Context, expr: ast.Expr) -> AnyValue:
    """The value of an expression in the current scope; FAILED where an error was reported."""
    context.budget.step(expr, context.generic)
    try:
        return _RULES[type(expr)](context, expr)
    except Stop:
        return FAILED


def _name(context: Context, node: ast.Name) -> AnyValue:
    value = context.scope.find(node.text)
    if value is None:
        raise Stop(_unknown_name(context, node))
    return context.read(value) if isinstance(value, TrainingFlag) else value


def _unknown_name(context: Context, node: ast.Name) -> Diagnostic:
    if context.scope.awaits(node.text):
        text = f"`{node.text}` is used before the line that defines it"
        return context.report.error("WG0201", text, node)
    problem = context.report.unknown(
        "WG0201", "name", node.text, context.scope.visible(), node, "not found in this scope"
    )
    if node.text in NAMES_OF_OTHER_LANGUAGES:
        problem.helps.clear()
        explain_name(problem, node)
    elif any(node.text in scope.names for scope in context.callers):
        name = context.functions[-1].name
        problem.helps.clear()
        problem.help(
            f"`{node.text}` is a local of the caller: make it an argument of `{name}`, or define "
            f"`fn {name}` inside the caller, where it sees the locals"
        )
    return problem


def _if(context: Context, node: ast.IfExpr) -> AnyValue:
    chosen = node.then if is_true(context, node.condition) else node.otherwise
    return context.require(context.value(chosen))


def _binary(context: Context, node: ast.Binary) -> AnyValue:
    """A long sum is a deep tree on its left side, so a loop follows that side, not recursion."""
    chain = [node]
    while isinstance(chain[-1].left, ast.Binary):
        chain.append(chain[-1].left)
    first = chain[-1].left
    left = context.value(first)
    place = first.span
    for link in reversed(chain):
        operands = Given(left, place), Given(context.value(link.right), link.right.span)
        left, place = _operation(context, link, *operands), link.span
    return left


def _operation(context: Context, node: ast.Binary, left: Given, right: Given) -> AnyValue:
    context.require(left.value)
    context.require(right.value)
    left, right = (Given(context.read(side.value), side.span) for side in (left, right))
    if isinstance(left.value, Dim) and isinstance(right.value, Dim):
        context.budget.step(node, context.generic, left.value.work_with(right.value))
    value = arithmetic.binary(context, node.op, left, right, node.op_span, node.span)
    return _check_bounds(context, value, node) if isinstance(value, Dim) else value


def _check_bounds(context: Context, value: Dim, at: ast.Expr) -> Dim:
    if abs(value.size) > LARGEST_WHOLE and not value.generic:
        text = f"this whole number is beyond {LARGEST_WHOLE}"
        raise Stop(context.report.error("WG0504", text, at))
    return value


def _unary(context: Context, node: ast.Unary) -> AnyValue:
    operand = Given(context.evaluate(node.operand), node.operand.span)
    return arithmetic.unary(context, node.op, operand, node.span)


def _member(context: Context, node: ast.Member) -> AnyValue:
    report_prefixed(context, node)
    value = context.require(context.value(node.value))
    explain_member(context, node, value)
    return member(context, value, node.name)


def _call(context: Context, node: ast.Call) -> AnyValue:
    if not _is_bound(context, node.function):
        report_foreign_call(context, node)
    before = len(context.report.diagnostics.items)
    function, first = callable_member(context, node)
    gather = gather_options if isinstance(function, LayerType) else gather_arguments
    arguments = gather(context, node.arguments)
    arguments = arguments.after(first) if first is not None else arguments
    if any(has_failed(given.value) for given in arguments.positional):
        raise Stop
    try:
        return call(context, function, arguments, node.span)
    except Stop:
        method = node.function.value if isinstance(node.function, ast.Member) else None
        explain_failed_call(context, node, function, before, method if first else None)
        raise


def _is_bound(context: Context, function: ast.Expr) -> bool:
    return isinstance(function, ast.Name) and context.scope.is_bound(function.text)


def _pipe(context: Context, node: ast.Pipe) -> AnyValue:
    if isinstance(node.target, ast.Call) and not _is_bound(context, node.target.function):
        report_foreign_call(context, node.target, node.value, node.span)
    first = Given(context.value(node.value), node.value.span)
    arguments = Arguments()
    target = node.target
    if isinstance(target, ast.Call):
        function = context.value(target.function)
        arguments = gather_arguments(context, target.arguments)
    else:
        function = context.value(target)
    return call(context, function, arguments.after(first), target.span)


def _index(context: Context, node: ast.Index) -> AnyValue:
    report_none_in_index(context, node)
    value = context.require(context.value(node.value))
    if isinstance(value, DtypeValue):
        return TypeValue(
            value.name, tuple(size_of(context, _plain(context, i)) for i in node.items)
        )
    if isinstance(value, LayerType):
        sizes = tuple(size_of(context, _plain(context, item)) for item in node.items)
        return LayerType(value.definition, sizes, value.arguments)
    if not isinstance(value, (ListValue, TupleValue)):
        value = context.read(value)
    return context.require(indexing.index(context, value, node))


def _plain(context: Context, item: ast.IndexItem) -> ast.Expr:
    if isinstance(item, (ast.Slice, ast.Window, ast.Rest, ast.NewAxis)):
        text = "slices and `..` can only be used to index a tensor"
        raise Stop(context.report.error("WG0413", text, item))
    return item


def _broken(context: Context, node: ast.Broken) -> AnyValue:
    return FAILED


_RULES: dict[type, Callable[[Context, Any], AnyValue]] = {
    ast.Name: _name,
    ast.Int: lambda context, node: _check_bounds(context, Dim.literal(node.value), node),
    ast.Float: lambda context, node: Number(node.value),
    ast.String: lambda context, node: Text(node.value, node.span),
    ast.Bool: lambda context, node: BoolValue(node.value),
    ast.Dtype: lambda context, node: DtypeValue(node.name),
    ast.TupleExpr: lambda context, node: TupleValue(tuple(map(context.value, node.items))),
    ast.ListExpr: lambda context, node: ListValue(tuple(map(context.value, node.items))),
    ast.IfExpr: _if,
    ast.Pipe: _pipe,
    ast.Binary: _binary,
    ast.Unary: _unary,
    ast.Range: range_value,
    ast.Member: _member,
    ast.Call: _call,
    ast.Index: _index,
    ast.Broken: _broken,
}


OPTIMIZER_MEMBERS = ("grad_norm", "lr", "step")
# How many members an error names.
MOST_NAMED = 8


def call(context: Context, function: AnyValue, arguments: Arguments, at: Span) -> AnyValue:
    all_arguments = [*arguments.positional, *arguments.named.values()]
    if has_failed(function) or any(has_failed(item.value) for item in all_arguments):
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
    """The function that is called, and the first argument in `x.f(a)`.

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
    callee = scope.find(name)
    if isinstance(callee, Failed):
        raise Stop
    if not isinstance(callee, (FunctionValue, Builtin)):
        kinds = (FunctionValue, Builtin)
        options = (option for option in scope.visible() if isinstance(scope.find(option), kinds))
        unknown = context.report.unknown("WG0201", "function", name, options, function.name)
        raise Stop(unknown)
    return callee, Given(tensor, function.value.span)


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
        problem = context.report.unknown(code, what, name.text, members, name, label)
        named = [f"`{key}`" for key in members if key.islower() and not key.startswith("_")]
        if not problem.helps and named:
            problem.note(f"it has {', '.join(named[:MOST_NAMED])}")
        elif (what, name.text) == ("member of `Linear`:", "weight"):
            problem.note("`w` is [in, out]: PyTorch's `weight`, transposed")
        raise Stop(problem)
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
        result = call_function(context, forward, arguments, at, name, layer)
        if isinstance(result, Tensor):
            context.trace.keep_name(result.value, layer.path)
        return result
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
