"""Operands that operators accept, and the errors for those that they do not.

Numbers are computed at compile time: whole numbers (`Dim`) stay exact, everything else is a float.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Given, has_bool, has_fraction
from wgcc.elaborate.tracing.dims import Dim, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    Builtin,
    DtypeValue,
    FunctionValue,
    LayerType,
    LayerValue,
    ListValue,
    Number,
    Tensor,
    Text,
    TupleValue,
    describe,
)
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS, INTEGERS

CALLABLE = (LayerValue, LayerType, FunctionValue, Builtin)
Known = Dim | Number | BoolValue


def unpack_help(text: str) -> str:
    """`text` is an expression whose value is a tuple."""
    return f"take one of its parts, `{text}[0]`, or unpack it: `a, b = {text}`"


def adapt_operands(
    tracer: Tracer, op: str, left: Given, right: Given, at: Span, bools: bool = False
) -> tuple[Tensor, Tensor]:
    """Two tensors of one dtype: a compile-time number takes the dtype of the tensor."""
    left, right = with_lists(tracer, left, right)
    a, b = left.value, right.value
    if isinstance(a, Known) and isinstance(b, Known):
        dtype = _common_dtype(a, b)
        return as_scalar(tracer, left, dtype), as_scalar(tracer, right, dtype)
    if isinstance(a, Known):
        tensor = numeric(tracer, right, op, bools)
        return _number_with_tensor(tracer, op, left, right, tensor), tensor
    tensor = numeric(tracer, left, op, bools)
    if isinstance(b, Known):
        return tensor, _number_with_tensor(tracer, op, right, left, tensor)
    other = numeric(tracer, right, op, bools)
    same_dtype(tracer, op, left, right, at)
    return tensor, other


def with_lists(tracer: Tracer, left: Given, right: Given) -> tuple[Given, Given]:
    """The operands, with a list of numbers as a tensor of the other's dtype.

    Whole numbers in a list are floats beside a fraction.
    """
    return _with_list(tracer, left, right), _with_list(tracer, right, left)


def _with_list(tracer: Tracer, operand: Given, other: Given) -> Given:
    if not isinstance(operand.value, ListValue):
        return operand
    dtypes: tuple[str, ...] = ()
    if isinstance(other.value, Tensor):
        dtypes = (other.value.dtype,)
    elif has_fraction(other.value) and not has_bool(operand.value):
        dtypes = ("f32",)
    return Given(tracer.literal(operand.value, dtypes, operand.span), operand.span)


def as_scalar(tracer: Tracer, operand: Given, dtype: str) -> Tensor:
    """A compile-time number as a tensor; `tracer.here` is restored afterwards."""
    here = tracer.here
    result = tracer.fit(operand.value, dtype, (), operand.span)
    tracer.here = here
    return result


def numeric(tracer: Tracer, operand: Given, op: str, bools: bool = False) -> Tensor:
    """The operand of `op`, which must be a tensor of numbers (or, with `bools`, of anything)."""
    value = operand.value
    if not isinstance(value, Tensor):
        text = f"`{op}` works on tensors and numbers, but this is {describe(value)}"
        problem = tracer.report.error("WG0501", text, operand.span)
        if isinstance(value, TupleValue):
            problem.help(unpack_help(operand.span.text))
        raise Stop(problem.help("call it: `f(x)`") if isinstance(value, CALLABLE) else problem)
    if value.dtype == "bool" and not bools:
        text = f"`{op}` works on numbers, but this is {value}"
        problem = tracer.report.error("WG0501", text, operand.span, str(value))
        raise Stop(problem.help(f"convert it: `f32({operand.span.text})`"))
    return value


def same_dtype(tracer: Tracer, op: str, left: Given, right: Given, at: Span) -> None:
    """No silent promotion: two tensors must have one dtype."""
    a, b = left.value, right.value
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    if a.dtype == b.dtype:
        return
    problem = tracer.report.error("WG0501", f"`{op}` mixes {a.dtype} and {b.dtype}", at)
    problem.also(left.span, str(a)).also(right.span, str(b))
    better = "f32" if "f32" in (a.dtype, b.dtype) else a.dtype
    other = right if a.dtype == better else left
    raise Stop(problem.help(f"convert one side: `{better}({other.span.text})`"))


def _common_dtype(a: Known, b: Known) -> str:
    if isinstance(a, BoolValue):
        return "bool"
    return "i32" if isinstance(a, Dim) and isinstance(b, Dim) else "f32"


def _number_with_tensor(
    tracer: Tracer, op: str, number: Given, operand: Given, tensor: Tensor
) -> Tensor:
    value = number.value
    if isinstance(value, Number) and tensor.dtype in INTEGERS:
        text = f"`{op}` mixes {tensor.dtype} with the fraction {value.value:g}"
        problem = tracer.report.error("WG0501", text, tracer.here)
        raise Stop(problem.help(f"convert first: `f32({operand.span.text})`"))
    if isinstance(value, BoolValue) != (tensor.dtype == "bool"):
        text = f"`{op}` mixes {tensor.dtype} and {describe(value)}"
        raise Stop(tracer.report.error("WG0501", text, number.span))
    return as_scalar(tracer, number, tensor.dtype)


LARGEST_EXPONENT = 64

FLOAT_RULES: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
    "**": operator.pow,
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def fold(tracer: Tracer, op: str, left: Given, right: Given, at: Span) -> AnyValue:
    """`left op right` of two compile-time numbers."""
    a, b = left.value, right.value
    assert isinstance(a, (Dim, Number)) and isinstance(b, (Dim, Number))
    if op in COMPARISONS or op == "%":
        tracer.choose(at, plain(a), plain(b))
    elif op == "**":
        tracer.choose(at, plain(b))
    if op in COMPARISONS:
        return BoolValue(COMPARISONS[op](plain(a), plain(b)))
    if op == "@":
        problem = tracer.report.error("WG0412", "`@` multiplies tensors, but these are numbers", at)
        raise Stop(problem.help("use `*` to multiply numbers"))
    if isinstance(a, Dim) and isinstance(b, Dim):
        return _fold_whole(tracer, op, (left, a), (right, b), at)
    try:
        result = FLOAT_RULES[op](float(plain(a)), float(plain(b)))
    except (ArithmeticError, ValueError):
        result = math.nan
    if isinstance(result, complex) or math.isnan(result):
        text = f"`{op}` of {describe(a)} and {describe(b)} is not a number"
        raise Stop(tracer.report.error("WG0503", text, at))
    return Number(result)


def plain(value: Dim | Number) -> float | int:
    return value.size if isinstance(value, Dim) else value.value


def convert_number(
    tracer: Tracer, value: Dim | Number | BoolValue, dtype: str, at: Span
) -> Dim | Number | BoolValue:
    """`f32(D)` is a fraction, `i32(2.5)` the whole number 2, `bool(1)` true."""
    number = value.size if isinstance(value, Dim) else value.value
    if dtype == "bool":
        tracer.choose(at, number)
        return BoolValue(bool(number))
    if dtype in FLOATS:
        return Number(float(number))
    if isinstance(value, Dim):
        return value
    tracer.choose(at, number)
    if not math.isfinite(number):
        text = f"{describe(value)} is not a whole number"
        raise Stop(tracer.report.error("WG0503", text, at))
    return Dim.literal(int(number))


def compare_known(tracer: Tracer, op: str, a: AnyValue, b: AnyValue, at: Span) -> bool:
    """Compare what is known at compile time: numbers, bools, strings, types and lists of them."""
    if isinstance(a, (ListValue, TupleValue)) and isinstance(b, (ListValue, TupleValue)):
        _warn_of_coincidence(tracer, a, b, at)
    left, right = _comparable(a), _comparable(b)
    tracer.choose(at, *_numbers_of(left), *_numbers_of(right))
    try:
        return COMPARISONS[op](left, right)
    except TypeError:
        text = f"`{op}` cannot compare {describe(a)} and {describe(b)}"
        raise Stop(tracer.report.error("WG0501", text, at)) from None


def _fold_whole(
    tracer: Tracer, op: str, left: tuple[Given, Dim], right: tuple[Given, Dim], at: Span
) -> Dim:
    a, b = left[1], right[1]
    if op in ("+", "-", "*"):
        rules = {"+": operator.add, "-": operator.sub, "*": operator.mul}
        result: Dim = rules[op](a, b)
        return result
    if op == "**":
        return _whole_power(tracer, a, b, at)
    if b.size == 0:
        raise Stop(tracer.report.error("WG0402", "division by zero", at))
    if op == "%":
        generic = a.generic or b.generic
        known = a.is_literal and b.is_literal
        return Dim.literal(a.size % b.size) if known else Dim(a.size % b.size, generic=generic)
    quotient = a.divided_by(b)
    if quotient is None:
        text = f"{a.full} is not divisible by {b.full}"
        label = f"{a.size} / {b.size} leaves a remainder of {a.size % b.size}"
        problem = tracer.report.error("WG0402", text, at, label)
        fraction = f"f32({left[0].span.text}) / {right[0].span.text}"
        raise Stop(
            problem.help(
                f"division of whole numbers must be exact; for a fraction write `{fraction}`"
            )
        )
    return quotient


def _whole_power(tracer: Tracer, a: Dim, b: Dim, at: Span) -> Dim:
    if not 0 <= b.size <= LARGEST_EXPONENT:
        text = f"the exponent of a whole number must be 0 to {LARGEST_EXPONENT}, but it is {b.size}"
        problem = tracer.report.error("WG0402", text, at)
        raise Stop(problem.help("for a fraction begin with a fraction: `2.0 ** -1`"))
    return product([a] * b.size)


def _comparable(value: AnyValue) -> object:
    if isinstance(value, (Dim, Number)):
        return plain(value)
    if isinstance(value, (BoolValue, Text)):
        return value.value
    if isinstance(value, DtypeValue):
        return value.name
    if isinstance(value, (ListValue, TupleValue)):
        return [_comparable(item) for item in value.items]
    return value


def _numbers_of(value: object) -> Iterator[float]:
    if isinstance(value, (int, float)):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _numbers_of(item)


def _warn_of_coincidence(
    tracer: Tracer, a: ListValue | TupleValue, b: ListValue | TupleValue, at: Span
) -> None:
    for x, y in zip(a.items, b.items, strict=False):
        if isinstance(x, Dim) and isinstance(y, Dim):
            tracer.same_size(x, y, at, "shapes")
