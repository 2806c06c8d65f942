"""ExpressionChecker of numbers alone, computed as WGSL does before a kernel runs.

Compilers of WGSL refuse a kernel in which such an expression has no value, and may compute it more
exactly than at run time. So they are computed here, once for all machines.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from wgcc.kernel.tree import Expr, Literal, Unary
from wgcc.kernel.types import FLOATS

Number = float | int | bool
RANGES = {"i32": (-(2**31), 2**31 - 1), "u32": (0, 2**32 - 1), "int": (-(2**63), 2**63 - 1)}
LARGEST = 3.4028234663852886e38


class NoNumber(Exception):
    """There is no such number, or its type cannot hold it."""


def number_in(expr: Expr) -> Number | None:
    """The number that an expression is, if it is one."""
    if isinstance(expr, Literal):
        return expr.value
    if isinstance(expr, Unary) and expr.op == "-" and isinstance(expr.operand, Literal):
        return -expr.operand.value
    return None


def literal(value: Number, kind: str) -> Expr:
    """A number of this type as it is written; numbers below 0 are negated ones."""
    if kind == "bool":
        return Literal(bool(value), "bool")
    number: Number = float(value) if kind in FLOATS else int(value)
    written = "f32" if kind in FLOATS else "u32" if kind == "u32" else "int"
    is_below = math.copysign(1.0, number) < 0 if kind in FLOATS else number < 0
    return (
        Unary("-", Literal(-number, written), parens=True) if is_below else Literal(number, written)
    )


def settle(value: Number, kind: str) -> Number:
    """The number as its type holds it."""
    if kind == "bool":
        return bool(value)
    if kind in FLOATS:
        if not abs(value) <= LARGEST:
            raise NoNumber("it is beyond f32")
        return struct.unpack("f", struct.pack("f", value))[0] if kind == "f32" else float(value)
    low, high = RANGES[kind]
    if not low <= value <= high:
        raise NoNumber(f"{value} does not fit into {'i32' if kind == 'int' else kind}")
    return int(value)


def convert(value: Number, kind: str) -> Number:
    """`i32(x)` and the like: a float loses its fraction and stays in range."""
    if kind in RANGES and isinstance(value, float):
        low, high = RANGES[kind]
        return min(max(int(value), low), high)
    if kind in RANGES and kind != "int":
        word = int(value) & 0xFFFFFFFF
        return word - 2**32 if kind == "i32" and word >= 2**31 else word
    return settle(value, kind)


def binary(op: str, a: Number, b: Number, kind: str) -> Number:
    """`kind` is the type of both operands (of the first, where the op shifts)."""
    if op in _COMPARISONS:
        return _COMPARISONS[op](a, b)
    if op in ("&&", "||"):
        return (a and b) if op == "&&" else (a or b)
    if op in ("/", "%") and b == 0:
        raise NoNumber("it divides by zero")
    if kind in FLOATS:
        return settle(_FLOATS[op](float(a), float(b)), kind)
    if kind == "bool":
        return bool(_WHOLE[op](int(a), int(b)))
    return settle(_WHOLE[op](int(a), int(b)), kind)


def unary(op: str, a: Number, kind: str) -> Number:
    if op == "!":
        return not a
    if op == "-":
        return settle(-a, kind)
    word = ~int(a)
    return word & 0xFFFFFFFF if kind == "u32" else word


def call(name: str, args: Sequence[Number], kind: str) -> Number | None:
    """A function of WGSL; None if it is not computed here."""
    if name == "clamp" and args[1] > args[2]:
        raise NoNumber("its lower limit is above the upper one")
    rule = _CALLS.get(name)
    if rule is None:
        return None
    try:
        return settle(rule(*args), kind)
    except (ValueError, ArithmeticError):
        raise NoNumber("it has no value") from None


def _quotient(a: int, b: int) -> int:
    """Rounded towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _round(x: float) -> float:
    return float(round(x))


_COMPARISONS: dict[str, Callable[[Number, Number], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}
_FLOATS: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": math.fmod,
}
_WHOLE: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": lambda a, b: a - _quotient(a, b) * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
}
_CALLS: dict[str, Callable[..., Number]] = {
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": _round,
    "fract": lambda x: x - math.floor(x),
    "sqrt": math.sqrt,
    "inverseSqrt": lambda x: 1.0 / math.sqrt(x),
    "exp": math.exp,
    "fma": lambda a, b, c: a * b + c,
    "min": min,
    "max": max,
    "clamp": lambda x, low, high: min(max(x, low), high),
}
