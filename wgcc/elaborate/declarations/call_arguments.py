"""The arguments of a call as they are written, evaluated one by one."""

from __future__ import annotations

from collections.abc import Callable

from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Arguments, Given
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.values import AnyValue
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
