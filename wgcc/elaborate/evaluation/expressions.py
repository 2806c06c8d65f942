"""Evaluates each kind of expression. Operators and indexing are in `operators/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wgcc.elaborate.declarations.constants import is_true
from wgcc.elaborate.declarations.constructors import gather_arguments, gather_options
from wgcc.elaborate.declarations.signatures import size_of
from wgcc.elaborate.evaluation.calls import call, callable_member, member
from wgcc.elaborate.evaluation.foreign import (
    explain_failed_call,
    explain_member,
    report_foreign_call,
    report_none_in_index,
    report_prefixed,
)
from wgcc.elaborate.evaluation.iteration import range_value
from wgcc.elaborate.from_pytorch import PREFIXES
from wgcc.elaborate.operators import arithmetic, indexing
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Arguments, Given
from wgcc.elaborate.tracing.context import FAILED, Context, has_failed
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    DtypeValue,
    LayerType,
    ListValue,
    Number,
    Text,
    TrainingFlag,
    TupleValue,
    TypeValue,
)
from wgcc.errors import Diagnostic
from wgcc.syntax import ast

# Sizes and counts stay far below; larger numbers would only make the compiler slow.
LARGEST_WHOLE = 2**62
NAMES_OF_OTHER_LANGUAGES = {
    "self": "members are named directly: write `w`, not `self.w`",
    **dict.fromkeys(PREFIXES, "built-in functions need no prefix: write `relu(x)`"),
    **dict.fromkeys(("True", "False"), "write `true` and `false`"),
    "None": "leave the argument out",
}


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
        problem.help(NAMES_OF_OTHER_LANGUAGES[node.text])
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
    return _bounded(context, value, node) if isinstance(value, Dim) else value


def _bounded(context: Context, value: Dim, at: ast.Expr) -> Dim:
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


def _pipe(context: Context, node: ast.Pipe) -> AnyValue:
    if isinstance(node.target, ast.Call):
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
    ast.Int: lambda context, node: _bounded(context, Dim.literal(node.value), node),
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
