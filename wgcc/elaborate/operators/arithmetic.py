"""Operators: `+ - * / % ** @`, comparisons, `and or not`, and conversions such as `f32(x)`.

Operands are values with their places; their syntax is not used here. `wgcc/ops/elementwise.py`
defines integer division at run time; at compile time a division must be exact. `x ** y` takes the
cheapest ops: known small exponents become products and roots. `a @ b` collapses leading axes,
so that only plain and batched matrix products are emitted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from wgcc.elaborate.operators import operands
from wgcc.elaborate.operators.broadcasting import broadcast_dims, reshape
from wgcc.elaborate.operators.operands import adapt_operands, numeric, plain, same_dtype, with_lists
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Given
from wgcc.elaborate.tracing.dims import DIFF, Dim, compare, product
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
from wgcc.errors import Diagnostic, Span
from wgcc.ir.dtypes import NARROW_INTEGERS, SIGNED
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
        return operands.fold(tracer, op, left, right, at)
    if op in COMPARISONS and isinstance(a, KNOWN) and isinstance(b, KNOWN):
        return BoolValue(operands.compare_known(tracer, op, a, b, op_span))
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
        return _negate(tracer, operand)
    if isinstance(value, Dim):
        return -value
    if isinstance(value, Number):
        return Number(-value.value)
    operand, _ = with_lists(tracer, operand, operand)
    tensor = numeric(tracer, operand, "-")
    if tensor.dtype not in SIGNED:
        text = f"`-` needs numbers that can be negative, but this is {tensor}"
        problem = tracer.report.error("WG0501", text, operand.span, str(tensor))
        raise Stop(problem.help(f"convert it: `i32({operand.span.text})`"))
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
        return operands.convert_number(tracer, value, dtype, at)
    text = f"cannot convert {describe(value)} to {dtype}"
    raise Stop(tracer.report.error("WG0501", text, operand.span))


def elementwise(
    tracer: Tracer, op: str, ir_op: str, left: Given, right: Given, at: Span, result: str = ""
) -> Tensor:
    """Apply a pointwise op to two operands that broadcast; messages call it `op`."""
    a, b = adapt_operands(tracer, op, left, right, at, bools=op in ("==", "!="))
    dims = broadcast_dims(tracer, op, Given(a, left.span), Given(b, right.span), at)
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
    dims = broadcast_dims(tracer, op, left, right, op_span)
    a, b = tracer.broadcast(a, dims), tracer.broadcast(b, dims)
    return tracer.emit(LOGIC[op], a, b, dims=dims, dtype="bool")


def _short_circuit(tracer: Tracer, op: str, known: BoolValue, other: AnyValue) -> AnyValue:
    decided = known.value == (op == "or")
    if not decided:
        return other
    if isinstance(other, Tensor):
        return tracer.broadcast(tracer.constant(known.value, "bool"), other.dims)
    return known


def _negate(tracer: Tracer, operand: Given) -> AnyValue:
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
    problem = tracer.report.error("WG0501", f"{rule}, but this is {describe(value)}", operand.span)
    if isinstance(value, (Tensor, Dim, Number)):
        problem.help(f"compare it: `{operand.span.text} != 0`")
    raise Stop(problem)


ROOTS = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
# Beyond this a chain of products is neither faster nor more accurate than `pow`.
LARGEST_CHAIN = 16


def power(tracer: Tracer, base: Given, exponent: Given, at: Span) -> Tensor:
    if isinstance(exponent.value, (Dim, Number)):
        x = numeric(tracer, base, "**")
        return _constant_exponent(tracer, x, plain(exponent.value), at)
    y = _floats(tracer, numeric(tracer, exponent, "**"), exponent.span)
    if isinstance(base.value, (Dim, Number)):
        scalar = tracer.constant(float(plain(base.value)), y.dtype)
        return _pow(tracer, tracer.broadcast(scalar, y.dims), y)
    x = numeric(tracer, base, "**")
    same_dtype(tracer, "**", base, exponent, at)
    dims = broadcast_dims(tracer, "**", base, exponent, at)
    return _pow(tracer, tracer.broadcast(x, dims), tracer.broadcast(y, dims))


def whole_power(tracer: Tracer, x: Tensor, exponent: int) -> Tensor:
    """Multiplies by repeated squaring: x ** 5 is x * (x ** 2) ** 2."""
    if exponent == 0:
        return tracer.broadcast(tracer.constant(1, x.dtype), x.dims)
    if exponent == 1:
        return x
    half = whole_power(tracer, x, exponent // 2)
    if x.dtype in FLOATS:
        result = tracer.emit("square", half, dims=x.dims, dtype=x.dtype)
    else:
        result = tracer.emit("mul", half, half, dims=x.dims, dtype=x.dtype)
    if exponent % 2:
        result = tracer.emit("mul", x, result, dims=x.dims, dtype=x.dtype)
    return result


def _constant_exponent(tracer: Tracer, x: Tensor, exponent: float, at: Span) -> Tensor:
    whole = math.isfinite(exponent) and exponent == int(exponent)
    if whole and 0 <= exponent <= LARGEST_CHAIN:
        return whole_power(tracer, x, int(exponent))
    _floats(tracer, x, at)
    if exponent in ROOTS:
        return tracer.emit(ROOTS[exponent], x, dims=x.dims, dtype=x.dtype)
    if whole and -LARGEST_CHAIN <= exponent < 0:
        below = whole_power(tracer, x, -int(exponent))
        return tracer.emit("reciprocal", below, dims=x.dims, dtype=x.dtype)
    scalar = tracer.constant(float(exponent), x.dtype)
    return _pow(tracer, x, tracer.broadcast(scalar, x.dims))


def _pow(tracer: Tracer, base: Tensor, exponent: Tensor) -> Tensor:
    return tracer.emit("pow", base, exponent, dims=exponent.dims, dtype=exponent.dtype)


def _floats(tracer: Tracer, x: Tensor, at: Span) -> Tensor:
    if x.dtype in FLOATS:
        return x
    text = f"`**` with {x} needs an exponent known at compile time, 0 to {LARGEST_CHAIN}"
    raise Stop(tracer.report.error("WG0501", text, at).help("convert first: `f32(...)`"))


ONE = Dim.literal(1)


def matmul(tracer: Tracer, left: Given, right: Given, at: Span) -> Tensor:
    """A vector is one row on the left, one column on the right; that axis is then removed."""
    a, b = numeric(tracer, left, "@", bools=True), numeric(tracer, right, "@", bools=True)
    _check(tracer, left, right, at)
    rows = reshape(tracer, a, (ONE, *a.dims)) if a.rank == 1 else a
    columns = reshape(tracer, b, (*b.dims, ONE)) if b.rank == 1 else b
    if columns.rank == 2:
        result = _one_matrix(tracer, rows, columns)
    else:
        lead = broadcast_dims(tracer, "@", left, right, at, without=2)
        result = batched_matmul(tracer, rows, columns, lead)
    dims = list(result.dims)
    if b.rank == 1:
        del dims[-1]
    if a.rank == 1:
        del dims[-1 if b.rank == 1 else -2]
    return reshape(tracer, result, dims)


def batched_matmul(tracer: Tracer, a: Tensor, b: Tensor, lead: Sequence[Dim]) -> Tensor:
    """`[lead, M, K] @ [lead, K, N]` as one batched product."""
    stack = product(lead)
    m, k, n = a.dims[-2], a.dims[-1], b.dims[-1]
    x = reshape(tracer, tracer.broadcast(a, (*lead, m, k)), (stack, m, k))
    y = reshape(tracer, tracer.broadcast(b, (*lead, b.dims[-2], n)), (stack, b.dims[-2], n))
    result = tracer.emit("matmul", x, y, dims=(stack, m, n), dtype=a.dtype)
    return reshape(tracer, result, (*lead, m, n))


def _one_matrix(tracer: Tracer, a: Tensor, b: Tensor) -> Tensor:
    """`[.., M, K] @ [K, N]`: all leading axes of `a` become rows of one matrix."""
    rows = product(a.dims[:-1])
    flat = reshape(tracer, a, (rows, a.dims[-1]))
    result = tracer.emit("matmul", flat, b, dims=(rows, b.dims[-1]), dtype=a.dtype)
    return reshape(tracer, result, (*a.dims[:-1], b.dims[-1]))


def _check(tracer: Tracer, left: Given, right: Given, at: Span) -> None:
    a, b = left.value, right.value
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    if a.dtype != b.dtype or a.dtype not in FLOATS:
        text = f"`@` multiplies float matrices of one type, but these are {a.dtype} and {b.dtype}"
        problem = _with_types(tracer.report.error("WG0501", text, at), left, right)
        for value, given in ((a, left), (b, right)):
            if value.dtype not in FLOATS:
                unpacked = ", which takes no memory" if value.dtype in NARROW_INTEGERS else ""
                problem.help(f"convert it: `f32({given.span.text})`{unpacked}")
        raise Stop(problem)
    if not a.dims or not b.dims:
        text = "`@` needs at least one axis on each side"
        problem = _with_types(tracer.report.error("WG0412", text, at), left, right)
        raise Stop(problem.help("use `*` to scale by a number"))
    inner_a, inner_b = a.dims[-1], b.dims[-2 if b.rank > 1 else 0]
    if not tracer.same_size(inner_a, inner_b, at, "`@`"):
        raise Stop(_inner_sizes(tracer, left, right, at))


def _inner_sizes(tracer: Tracer, left: Given, right: Given, at: Span) -> Diagnostic:
    a, b = left.value, right.value
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    inner_a, inner_b = a.dims[-1], b.dims[-2 if b.rank > 1 else 0]
    text = f"`@`: the inner sizes differ, {inner_a.full} against {inner_b.full}"
    problem = _with_types(tracer.report.error("WG0412", text, at), left, right)
    which = "second-last" if b.rank > 1 else "only"
    problem.note(f"`a @ b` needs the last axis of `a` to be the {which} axis of `b`")
    x, y = left.span.text, right.span.text
    if b.rank == 2 and compare(inner_a, b.dims[-1]) is not DIFF:
        problem.help(f"transpose the right side: `{x} @ transpose({y})`")
    elif a.rank == 2 and compare(a.dims[-2], inner_b) is not DIFF:
        problem.help(f"transpose the left side: `transpose({x}) @ {y}`")
    return problem


def _with_types(problem: Diagnostic, left: Given, right: Given) -> Diagnostic:
    return problem.also(left.span, str(left.value)).also(right.span, str(right.value))
