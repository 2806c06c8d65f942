"""Conditions that decide what is traced: they must be known at compile time."""

from __future__ import annotations

from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.values import BoolValue, describe
from wgcc.syntax import ast


def is_true(context: Context, condition: ast.Expr) -> bool:
    value = context.evaluate(condition)
    if isinstance(value, BoolValue):
        return value.value
    text = f"this condition must be known at compile time, but it is {describe(value)}"
    found = context.report.error("WG0306", text, condition)
    raise Stop(found.help("to choose element by element at run time use `where(condition, a, b)`"))
