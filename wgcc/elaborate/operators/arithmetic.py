"""Operators: `+ - * / % ** @`, comparisons, `and or not`, and conversions such as `f32(x)`.

Operands are values with their places; their syntax is not used here. `wgcc/ops/binary.py` defines
integer division at run time; at compile time a division must be exact.
"""

from __future__ import annotations

from wgcc.elaborate.operators import numbers
from wgcc.elaborate.operators.broadcasting import aligned
from wgcc.elaborate.operators.matmul import matmul
from wgcc.elaborate.operators.operands import adapted, numeric, with_lists
from wgcc.elaborate.operators.powers import power
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Given
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    DtypeValue,
    ListValue,
    Number,
    Tensor,
    Text,
    TupleValue,
    describe,
)
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS, INTEGERS

ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod"}
COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
LOGIC = {"and": "logical_and", "or": "logical_or"}

KNOWN = (Dim, Number, BoolValue, Text, ListValue, TupleValue, DtypeValue)


def binary(tracer: Tracer, op: str, left: Given, right: Given, op_span: Span, at: Span) -> AnyValue:
    """`left op right`; `op_span` is the place of the operator, `at` of the whole expression."""
    tracer.here = at
    if op in LOGIC:
        return _logic(tracer, op, left, right, op_span)
    a, b = left.value, right.value
    if isinstance(a, (Dim, Number)) and isinstance(b, (Dim, Number)):
        return numbers.fold(tracer, op, left, right, at)
    if op in COMPARISONS and isinstance(a, KNOWN) and isinstance(b, KNOWN):
        return BoolValue(numbers.compare_known(tracer, op, a, b, op_span))
    if op == "+" and isinstance(a, ListValue) and isinstance(b, ListValue):
        return ListValue((*a.items, *b.items))
    left, right = with_lists(tracer, left, right)
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
    """Integer division by a known 0 is an error; by a 0 found at run time it has a result."""
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
    operand, _ = with_lists(tracer, operand, operand)
    tensor = numeric(tracer, operand, "-")
    if tensor.dtype not in (*FLOATS, "i32", "i8"):
        text = f"`-` needs numbers that can be negative, but this is {tensor}"
        found = tracer.report.error("WG0501", text, operand.span, str(tensor))
        raise Stop(found.help(f"convert it: `i32({operand.span.text})`"))
    return tracer.emit("neg", tensor, dims=tensor.dims, dtype=tensor.dtype)


def convert(tracer: Tracer, dtype: str, operand: Given, at: Span) -> AnyValue:
    """`f32(x)` etc.: a tensor is cast, a compile-time number stays one."""
    tracer.here = at
    value = operand.value
    if isinstance(value, Tensor):
        return tracer.cast(value, dtype)
    if isinstance(value, ListValue):
        return tracer.literal(value, (dtype,), operand.span)
    if isinstance(value, (Dim, Number, BoolValue)):
        return numbers.converted(tracer, value, dtype, at)
    text = f"cannot convert {describe(value)} to {dtype}"
    raise Stop(tracer.report.error("WG0501", text, operand.span))


def elementwise(
    tracer: Tracer, op: str, ir_op: str, left: Given, right: Given, at: Span, result: str = ""
) -> Tensor:
    """Apply a pointwise op to two operands that broadcast; messages call it `op`."""
    a, b = adapted(tracer, op, left, right, at, bools=op in ("==", "!="))
    dims = aligned(tracer, op, Given(a, left.span), Given(b, right.span), at)
    a, b = tracer.broadcast(a, dims), tracer.broadcast(b, dims)
    return tracer.emit(ir_op, a, b, dims=dims, dtype=result or a.dtype)


def _logic(tracer: Tracer, op: str, left: Given, right: Given, op_span: Span) -> AnyValue:
    left, right = with_lists(tracer, left, right)
    for operand in (left, right):
        _condition(tracer, "`and`/`or` combine conditions", operand)
    a, b = left.value, right.value
    if isinstance(a, BoolValue):
        return _short_circuit(tracer, op, a, b)
    if isinstance(b, BoolValue):
        return _short_circuit(tracer, op, b, a)
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    dims = aligned(tracer, op, left, right, op_span)
    a, b = tracer.broadcast(a, dims), tracer.broadcast(b, dims)
    return tracer.emit(LOGIC[op], a, b, dims=dims, dtype="bool")


def _short_circuit(tracer: Tracer, op: str, known: BoolValue, other: AnyValue) -> AnyValue:
    decided = known.value == (op == "or")
    if not decided:
        return other
    if isinstance(other, Tensor):
        return tracer.broadcast(tracer.constant(known.value, "bool"), other.dims)
    return known


def _negated(tracer: Tracer, operand: Given) -> AnyValue:
    operand, _ = with_lists(tracer, operand, operand)
    value = operand.value
    _condition(tracer, "`not` needs a condition", operand)
    if isinstance(value, BoolValue):
        return BoolValue(not value.value)
    assert isinstance(value, Tensor)
    return tracer.emit("logical_not", value, dims=value.dims, dtype="bool")


def _condition(tracer: Tracer, rule: str, operand: Given) -> None:
    value = operand.value
    if isinstance(value, BoolValue) or (isinstance(value, Tensor) and value.dtype == "bool"):
        return
    found = tracer.report.error("WG0501", f"{rule}, but this is {describe(value)}", operand.span)
    if isinstance(value, (Tensor, Dim, Number)):
        found.help(f"compare it: `{operand.span.text} != 0`")
    raise Stop(found)
