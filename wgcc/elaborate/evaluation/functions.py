"""Calls of functions written in `.wg`: sizes are inferred, and the body is inlined."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.elaborate.declarations.signatures import (
    ANY_FLOAT,
    Signature,
    match_argument,
    match_result,
    match_type,
)
from wgcc.elaborate.evaluation.custom_gradients import CustomGradient, remat_region
from wgcc.elaborate.evaluation.statements import return_help, run_block
from wgcc.elaborate.report import Place, Stop
from wgcc.elaborate.tracing.arguments import Arguments, Given, plural
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.values import (
    FAILED,
    AnyValue,
    DtypeValue,
    Failed,
    FunctionValue,
    LayerValue,
    Scope,
    TupleValue,
)
from wgcc.errors import Span
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
    by_parameter = _by_parameter(context, node, arguments, shown)
    signature = Signature(shown, {size.text for size in node.sizes}, layer=layer)
    context.functions.append(function)
    context.callers.append(context.scope)
    around, context.call_arguments = context.call_arguments, by_parameter
    try:
        with (
            context.catch_deep_nesting(at),
            context.report.inside(at),
            context.within(Scope(function.scope), _prefix(context, function)),
        ):
            _bind_parameters(context, node, by_parameter, signature, at)
            _require_sizes(context, node, signature)
            if _is_remat(context, function):
                with remat_region(context, function) as region:
                    return region.results(_result(context, function, signature))
            return _result(context, function, signature)
    finally:
        context.functions.pop()
        context.callers.pop()
        context.call_arguments = around


def _is_remat(context: Context, function: FunctionValue) -> bool:
    """Regions inside a region are not marked."""
    return function.owner is not None and function.owner.remat and not context.in_remat


def _result(context: Context, function: FunctionValue, signature: Signature) -> AnyValue:
    node = function.node
    gradient = node.gradient and CustomGradient(context, function, node.gradient)
    result = _run(context, function, signature)
    return gradient.attach_to(result) if gradient else result


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
        problem = context.report.error("WG0602", text, at)
        raise Stop(problem.also(result.span, "declared here"))

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
    """The name of each result in messages, and its type."""
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
    by_parameter = dict(zip(names, arguments.positional, strict=False))
    for name, argument in arguments.named.items():
        at = argument.name_span or argument.span
        if name not in names:
            what = f"argument of `{shown}`:"
            problem = context.report.unknown("WG0207", what, name, names, at, "no such argument")
            raise Stop(problem.note(f"`{shown}` takes ({', '.join(names)})"))
        if name in by_parameter:
            text = f"argument `{name}` of `{shown}` is given twice"
            raise Stop(context.report.error("WG0207", text, at))
        by_parameter[name] = argument
    return by_parameter


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
    if signature.has_any_float and context.scope.find(ANY_FLOAT) is None:
        context.scope.bind(ANY_FLOAT, DtypeValue("f32"))


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
    """A method's values are named after its layer, others after the caller and the function.

    Those of a built-in function are named by their ops alone.
    """
    if function.is_inner:
        return f"{context.prefix}.{function.name}" if context.prefix else function.name
    if function.owner is not None:
        return function.owner.path
    if function.is_built_in:
        return context.prefix
    return f"{context.prefix}.{function.name}" if context.prefix else function.name
