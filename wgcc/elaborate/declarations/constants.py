"""Dims, constants, conditions and assertions, and warnings about sizes."""

from __future__ import annotations

import re

from wgcc.elaborate.declarations.signatures import coerce
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.context import FAILED, Context
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    DtypeValue,
    Failed,
    LayerDefinition,
    ListValue,
    Number,
    Tensor,
    Text,
    TupleValue,
    describe,
)
from wgcc.errors import Diagnostic
from wgcc.syntax import ast
from wgcc.syntax.tree_text import walk

LARGEST_DIM = 2**31 - 1


def declare_dim(context: Context, decl: ast.DimDecl, given: float | None = None) -> AnyValue:
    """The size of a `dim`; `given` (by `--set`) overrides the declaration."""
    name, report = decl.name.text, context.report
    if given is None and decl.value is None:
        problem = report.error("WG0205", f"dim `{name}` has no value", decl.name)
        problem.help(f"give it one here, or build with `--set {name}=...`")
        return FAILED
    value = _number(given) if given is not None else _written(context, decl)
    if isinstance(value, Failed):
        return FAILED
    at = decl.name if decl.value is None or given is not None else decl.value
    if not isinstance(value, Dim):
        text = f"a dim must be a whole number, but this is {describe(value)}"
        report.error("WG0401", text, at)
        return FAILED
    if value.size <= 0:
        report.error("WG0401", f"a dim must be positive, but `{name}` is {value.size}", at)
        return FAILED
    if value.size > LARGEST_DIM and not value.generic:
        text = f"a dim must be below 2**31, but `{name}` is {value.size}"
        report.error("WG0401", text, at)
        return FAILED
    if not value.is_literal:
        return value.named(name)
    span = decl.name.span
    return Dim.declared(name, value.size, f"{span.source.name}:{span.start}")


def declare_const(context: Context, decl: ast.Const, given: float | None = None) -> AnyValue:
    """The value of a `const`; `given` (by `--set`) overrides a number."""
    value = context.value(decl.value)
    if isinstance(value, Failed):
        return FAILED
    value = context.read(value)
    if given is not None:
        if not isinstance(value, (Dim, Number)):
            text = f"`{decl.name.text}` cannot be set: it is {describe(value)}, not a number"
            context.report.error("WG0221", text, decl.value)
            return FAILED
        value = Number(float(given)) if isinstance(value, Number) else _number(given)
    if decl.type is not None:
        try:
            return coerce(context, value, decl.type, decl.value, f"`{decl.name.text}`")
        except Stop:
            return FAILED
    if not _is_known(value):
        text = f"a constant must be known at compile time, but this is {describe(value)}"
        context.report.error("WG0221", text, decl.value)
        return FAILED
    return value


def _number(given: float) -> Dim | Number:
    return Dim.literal(int(given)) if float(given).is_integer() else Number(given)


def check_assertion(context: Context, node: ast.Assert) -> None:
    """`assert`. An assertion about values at run time can only be checked in a test."""
    value = context.evaluate(node.condition)
    if isinstance(value, BoolValue):
        if not value.value and not context.generic:
            raise Stop(report_failed_assertion(context, node))
        return
    if isinstance(value, Tensor) and value.dtype == "bool" and not value.dims and context.in_test:
        context.assertions.append((node, value))
        return
    text = f"`assert` needs a condition known at compile time, but this is {describe(value)}"
    problem = context.report.error("WG0403", text, node.condition)
    if isinstance(value, Tensor) and value.dtype == "bool":
        problem.help("assertions about values belong in a `test`; reduce them with `all(...)`")


def report_failed_assertion(context: Context, node: ast.Assert) -> Diagnostic:
    text = node.text.value if node.text is not None else "this assertion does not hold"
    found = context.report.error("WG0403", text, node.condition, "does not hold")
    if found.span is not node.condition.span and context.building:
        rule = context.building[-1].name
        found.label = f"`{found.span.text}` breaks a rule of `{rule}`"
        found.others[:] = [(node.condition.span, "the rule")]
    sizes = _sizes_in(context, node.condition)
    return found.note(f"here {sizes}") if sizes else found


def _written(context: Context, decl: ast.DimDecl) -> AnyValue:
    return context.read(context.value(decl.value)) if decl.value is not None else FAILED


def _sizes_in(context: Context, condition: ast.Expr) -> str:
    names = sorted({node.text for node in walk(condition) if isinstance(node, ast.Name)})
    found = [(name, context.scope.find(name)) for name in names]
    return ", ".join(f"{name} = {dim.size}" for name, dim in found if isinstance(dim, Dim))


def _is_known(value: AnyValue) -> bool:
    if isinstance(value, (TupleValue, ListValue)):
        return all(_is_known(item) for item in value.items)
    return isinstance(value, (Dim, Number, BoolValue, Text, DtypeValue))


def is_true(context: Context, condition: ast.Expr) -> bool:
    value = context.evaluate(condition)
    if isinstance(value, BoolValue):
        return value.value
    text = f"this condition must be known at compile time, but it is {describe(value)}"
    problem = context.report.error("WG0306", text, condition)
    raise Stop(
        problem.help("to choose element by element at run time use `where(condition, a, b)`")
    )


def lint_sizes(context: Context, definition: LayerDefinition) -> None:
    """Once per layer of the user's own files; not for a layer that did not parse."""
    node = definition.node
    if id(node) in context.linted or definition.file.source in context.report.library:
        return
    context.linted.add(id(node))
    pieces = list(walk(node))
    if any(isinstance(piece, ast.Broken) for piece in pieces):
        return
    _report_repeated(context, definition)
    for size in node.sizes:
        if not any(_mentions(piece, size.text) for piece in pieces):
            text = f"size `{size.text}` of `{definition.name}` is never used"
            context.report.warning("WG0902", text, size)
    for member in node.members:
        if isinstance(member, ast.Function):
            _report_hidden(context, definition, member)


def _report_repeated(context: Context, definition: LayerDefinition) -> None:
    seen: set[str] = set()
    for size in definition.node.sizes:
        if size.text in seen:
            text = f"size `{size.text}` of `{definition.name}` is listed twice"
            context.report.error("WG0204", text, size)
        seen.add(size.text)


def _report_hidden(context: Context, definition: LayerDefinition, function: ast.Function) -> None:
    own = {size.text: size for size in definition.node.sizes}
    for size in function.sizes:
        if size.text in own:
            text = (
                f"size `{size.text}` of `{function.name.text}` hides the size `{size.text}` "
                f"of `{definition.name}`"
            )
            problem = context.report.warning("WG0903", text, size)
            problem.also(own[size.text].span, "hidden here")


def _mentions(piece: ast.Syntax, name: str) -> bool:
    if isinstance(piece, ast.String):
        return re.search(rf"\b{re.escape(name)}\b", piece.value) is not None
    return isinstance(piece, ast.Name) and piece.text == name
