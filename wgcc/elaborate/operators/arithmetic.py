"""Operators: `+ - * / % ** @`, comparisons, `and or not`, and conversions such as `f32(x)`.

Operands come with their places; which expression they are is not known here. How whole numbers
divide stands in `wgcc/ops/binary.py`; those known at compile time divide exactly or not at all.
"""

from __future__ import annotations

from wgcc.elaborate.operators import numbers
from wgcc.elaborate.operators.broadcasting import aligned
from wgcc.elaborate.operators.matmul import matmul
from wgcc.elaborate.operators.operands import adapted, numeric
from wgcc.elaborate.operators.powers import power
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Given
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import (
    AnyValue,
    DtypeValue,
    ListValue,
    Number,
    Tensor,
    Text,
    Truth,
    TupleValue,
    describe,
)
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS, INTEGERS

ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod"}
COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
LOGIC = {"and": "logical_and", "or": "logical_or"}

KNOWN = (Dim, Number, Truth, Text, ListValue, TupleValue, DtypeValue)


def binary(tracer: Tracer, op: str, left: Given, right: Given, op_span: Span, at: Span) -> AnyValue:
    """`left op right`; `op_span` is where the operator stands, `at` the whole expression."""
    tracer.here = at
    if op in LOGIC:
        return _logic(tracer, op, left, right, op_span)
    a, b = left.value, right.value
    if isinstance(a, (Dim, Number)) and isinstance(b, (Dim, Number)):
        return numbers.fold(tracer, op, left, right, at)
    if op in COMPARISONS and isinstance(a, KNOWN) and isinstance(b, KNOWN):
        return Truth(numbers.compare_known(tracer, op, a, b, op_span))
    if op == "@":
        return matmul(tracer, left, right, op_span)
    if op == "**":
        return power(tracer, left, right, op_span)
    if op in COMPARISONS:
        return elementwise(tracer, op, COMPARISONS[op], left, right, op_span, "bool")
    if op in ("/", "%"):
        _check_divisor(tracer, op, left, right, at)
    return elementwise(tracer, op, ARITHMETIC[op], left, right, op_span)


def _check_divisor(tracer: Tracer, op: str, left: Given, right: Given, at: Span) -> None:
    """A whole number divided by a known 0 is a mistake; by one found at run time it has a rule."""
    a, b = left.value, right.value
    if isinstance(b, Dim) and b.size == 0 and isinstance(a, Tensor) and a.dtype in INTEGERS:
        raise Stop(tracer.report.error("WG0402", "division by zero", at))


def unary(tracer: Tracer, op: str, operand: Given, at: Span) -> AnyValue:
    """`-x` or `not x`."""
    tracer.here = at
    value = operand.value
    if op == "not":
        return _negated(tracer, operand)
    if isinstance(value, Dim):
        return -value
    if isinstance(value, Number):
        return Number(-value.value)
    tensor = numeric(tracer, operand, "-")
    if tensor.dtype not in (*FLOATS, "i32"):
        text = f"`-` needs numbers that can be negative, but this is {tensor}"
        found = tracer.report.error("WG0501", text, operand.span, str(tensor))
        raise Stop(found.help(f"convert it: `i32({operand.span.text})`"))
    return tracer.emit("neg", tensor, dims=tensor.dims, dtype=tensor.dtype)


def convert(tracer: Tracer, dtype: str, operand: Given, at: Span) -> AnyValue:
    """`f32(x)` and its like: a tensor is cast, a compile-time number stays one."""
    tracer.here = at
    value = operand.value
    if isinstance(value, Tensor):
        return tracer.cast(value, dtype)
    if isinstance(value, (Dim, Number, Truth)):
        return numbers.converted(tracer, value, dtype, at)
    text = f"cannot convert {describe(value)} to {dtype}"
    raise Stop(tracer.report.error("WG0501", text, operand.span))


def elementwise(
    tracer: Tracer, op: str, ir_op: str, left: Given, right: Given, at: Span, result: str = ""
) -> Tensor:
    """Apply a pointwise op to two operands that line up; `op` is how messages call it."""
    a, b = adapted(tracer, op, left, right, at, bools=op in ("==", "!="))
    dims = aligned(tracer, op, Given(a, left.span), Given(b, right.span), at)
    a, b = tracer.broadcast(a, dims), tracer.broadcast(b, dims)
    return tracer.emit(ir_op, a, b, dims=dims, dtype=result or a.dtype)


def _logic(tracer: Tracer, op: str, left: Given, right: Given, op_span: Span) -> AnyValue:
    for operand in (left, right):
        _condition(tracer, "`and`/`or` combine conditions", operand)
    a, b = left.value, right.value
    if isinstance(a, Truth):
        return _short_circuit(tracer, op, a, b)
    if isinstance(b, Truth):
        return _short_circuit(tracer, op, b, a)
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    dims = aligned(tracer, op, left, right, op_span)
    a, b = tracer.broadcast(a, dims), tracer.broadcast(b, dims)
    return tracer.emit(LOGIC[op], a, b, dims=dims, dtype="bool")


def _short_circuit(tracer: Tracer, op: str, known: Truth, other: AnyValue) -> AnyValue:
    decided = known.value == (op == "or")
    if not decided:
        return other
    if isinstance(other, Tensor):
        return tracer.broadcast(tracer.constant(known.value, "bool"), other.dims)
    return known


def _negated(tracer: Tracer, operand: Given) -> AnyValue:
    value = operand.value
    _condition(tracer, "`not` needs a condition", operand)
    if isinstance(value, Truth):
        return Truth(not value.value)
    assert isinstance(value, Tensor)
    return tracer.emit("logical_not", value, dims=value.dims, dtype="bool")


def _condition(tracer: Tracer, rule: str, operand: Given) -> None:
    value = operand.value
    if isinstance(value, Truth) or (isinstance(value, Tensor) and value.dtype == "bool"):
        return
    found = tracer.report.error("WG0501", f"{rule}, but this is {describe(value)}", operand.span)
    if isinstance(value, (Tensor, Dim, Number)):
        found.help(f"compare it: `{operand.span.text} != 0`")
    raise Stop(found)
