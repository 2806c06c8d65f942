"""What operators accept, and the errors for what they do not."""

from __future__ import annotations

from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Given, has_bool, has_fraction
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import (
    BoolValue,
    Builtin,
    FunctionValue,
    LayerType,
    LayerValue,
    ListValue,
    Number,
    Tensor,
    TupleValue,
    describe,
)
from wgcc.errors import Span
from wgcc.ir.graph import INTEGERS

CALLABLE = (LayerValue, LayerType, FunctionValue, Builtin)
Known = Dim | Number | BoolValue


def unpack_help(text: str) -> str:
    """`text` is an expression whose value is a tuple."""
    return f"take one of its parts, `{text}[0]`, or unpack it: `a, b = {text}`"


def adapted(
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
        found = tracer.report.error("WG0501", text, operand.span)
        if isinstance(value, TupleValue):
            found.help(unpack_help(operand.span.text))
        raise Stop(found.help("call it: `f(x)`") if isinstance(value, CALLABLE) else found)
    if value.dtype == "bool" and not bools:
        text = f"`{op}` works on numbers, but this is {value}"
        found = tracer.report.error("WG0501", text, operand.span, str(value))
        raise Stop(found.help(f"convert it: `f32({operand.span.text})`"))
    return value


def same_dtype(tracer: Tracer, op: str, left: Given, right: Given, at: Span) -> None:
    """No silent promotion: two tensors must have one dtype."""
    a, b = left.value, right.value
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    if a.dtype == b.dtype:
        return
    found = tracer.report.error("WG0501", f"`{op}` mixes {a.dtype} and {b.dtype}", at)
    found.also(left.span, str(a)).also(right.span, str(b))
    better = "f32" if "f32" in (a.dtype, b.dtype) else a.dtype
    other = right if a.dtype == better else left
    raise Stop(found.help(f"convert one side: `{better}({other.span.text})`"))


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
        found = tracer.report.error("WG0501", text, tracer.here)
        raise Stop(found.help(f"convert first: `f32({operand.span.text})`"))
    if isinstance(value, BoolValue) != (tensor.dtype == "bool"):
        text = f"`{op}` mixes {tensor.dtype} and {describe(value)}"
        raise Stop(tracer.report.error("WG0501", text, number.span))
    return as_scalar(tracer, number, tensor.dtype)
