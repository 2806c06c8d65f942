"""Simpler forms of pointwise nodes. Only rules that are exact for every float: no reordering of
sums, no `x * 0`, which would hide a NaN. (The one exception, `x + 0 = x`, leaves -0 as it is, which
makes no difference in a model.)"""

from __future__ import annotations

from math import copysign, frexp, inf, isfinite, nan

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Node, Value
from wgcc.passes.known_values import Known, Number, Rule, filled
from wgcc.passes.sum_of_parts import sum_of_parts


def _add(b: Builder, known: Known, node: Node) -> Value | None:
    """x + 0 = x;  x + -y = x - y"""
    x, y = node.inputs
    if known.number(y) == 0:
        return x
    if known.number(x) == 0:
        return y
    if negated := known.producer(y, "neg"):
        return b.apply("sub", x, negated.inputs[0])
    if negated := known.producer(x, "neg"):
        return b.apply("sub", y, negated.inputs[0])
    return sum_of_parts(b, known, node)


def _sub(b: Builder, known: Known, node: Node) -> Value | None:
    """x - 0 = x;  0 - x = -x;  x - -y = x + y"""
    x, y = node.inputs
    if known.number(y) == 0:
        return x
    if known.number(x) == 0 and x.dtype in FLOATS:
        return b.apply("neg", y)
    if negated := known.producer(y, "neg"):
        return b.apply("add", x, negated.inputs[0])
    return None


def _mul(b: Builder, known: Known, node: Node) -> Value | None:
    """x · 1 = x;  x · -1 = -x"""
    for x, y in (node.inputs, node.inputs[::-1]):
        if known.number(y) == 1:
            return x
        if known.number(y) == -1:
            return b.apply("neg", x)
    return None


def _div(b: Builder, known: Known, node: Node) -> Value | None:
    """x / 1 = x;  1 / y by reciprocal;  x / 2^k = x · 2^-k;  x / 0 = x · infinity"""
    x, y = node.inputs
    divisor = known.number(y)
    if divisor == 1:
        return x
    if x.dtype in FLOATS and divisor == 0:
        # Some drivers take x / 0 for 0.
        return b.apply("mul", x, filled(b, copysign(inf, divisor), x))
    if x.dtype in FLOATS and divisor is not None and _is_power_of_two(float(divisor)):
        return b.apply("mul", x, filled(b, 1.0 / float(divisor), x))
    if x.dtype in FLOATS and known.number(x) == 1:
        return b.apply("reciprocal", y)
    return None


def _mod(b: Builder, known: Known, node: Node) -> Value | None:
    """x % 0 is NaN"""
    x, y = node.inputs
    return filled(b, nan, x) if x.dtype in FLOATS and known.number(y) == 0 else None


def _is_power_of_two(number: float) -> bool:
    """Far from the ends of the range of f32, so that the inverse is exact, too."""
    fraction, exponent = frexp(number)
    return abs(fraction) == 0.5 and -64 < exponent < 64


def _pow(b: Builder, known: Known, node: Node) -> Value | None:
    """Powers by multiplication, square roots and reciprocals, where the exponent is known."""
    x, exponent = node.inputs
    number = known.number(exponent)
    if number is None or x.dtype not in FLOATS or not isfinite(number):
        return None
    if number in ROOTS:
        return b.apply(ROOTS[number], x)
    if number == 0:
        return filled(b, 1.0, x)
    if number != int(number) or abs(number) > 16:
        return None
    power = _product(b, x, abs(int(number)))
    return power if number > 0 else b.apply("reciprocal", power)


ROOTS: dict[Number, str] = {0.5: "sqrt", -0.5: "rsqrt"}


def _product(b: Builder, x: Value, exponent: int) -> Value:
    """x · x · … by repeated squaring."""
    if exponent == 1:
        return x
    half = b.apply("square", _product(b, x, exponent // 2))
    return b.apply("mul", half, x) if exponent % 2 else half


def _undo(op: str) -> Rule:
    def rule(b: Builder, known: Known, node: Node) -> Value | None:
        inner = known.producer(node.inputs[0], op)
        return inner.inputs[0] if inner else None

    return rule


def _same_operands(b: Builder, known: Known, node: Node) -> Value | None:
    """max(x, x) = x"""
    return node.inputs[0] if node.inputs[0] == node.inputs[1] else None


def _logical_and(b: Builder, known: Known, node: Node) -> Value | None:
    return _bool_operand(known, node, neutral=True)


def _logical_or(b: Builder, known: Known, node: Node) -> Value | None:
    return _bool_operand(known, node, neutral=False)


def _bool_operand(known: Known, node: Node, neutral: bool) -> Value | None:
    for x, y in (node.inputs, node.inputs[::-1]):
        number = known.number(y)
        if number is not None:
            return x if bool(number) == neutral else y
    return node.inputs[0] if node.inputs[0] == node.inputs[1] else None


def _where(b: Builder, known: Known, node: Node) -> Value | None:
    """where(true, x, y) = x;  where(c, x, x) = x;  where(not c, x, y) = where(c, y, x)"""
    condition, x, y = node.inputs
    number = known.number(condition)
    if number is not None or x == y:
        return y if number is not None and not number else x
    if inverted := known.producer(condition, "logical_not"):
        return b.apply("where", inverted.inputs[0], y, x)
    return None


def _cast(b: Builder, known: Known, node: Node) -> Value | None:
    return node.inputs[0] if node.inputs[0].dtype == node.attrs["dtype"] else None


def _stop_grad(b: Builder, known: Known, node: Node) -> Value | None:
    return node.inputs[0]


ARITHMETIC_RULES: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "mod": _mod,
    "pow": _pow,
    "neg": _undo("neg"),
    "logical_not": _undo("logical_not"),
    "maximum": _same_operands,
    "minimum": _same_operands,
    "logical_and": _logical_and,
    "logical_or": _logical_or,
    "where": _where,
    "cast": _cast,
    "stop_grad": _stop_grad,
}
