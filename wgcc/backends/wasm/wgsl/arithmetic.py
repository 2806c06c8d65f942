"""Nodes for what instructions compute, between the tree of WGSL and instructions.

A value is a scalar (`lanes` 1, the same for all lanes of a vector) or a vector of four. Equal nodes
are one node; arithmetic on constants is done at once. Bools are 0 or 1 as scalars and all bits 0 or
1 in lanes. Both widths give the same bits, but for those of a NaN. Where WGSL leaves a choice it is
the reference's: NaN survives `min`, `max` and `sign`. Dividing by 0 gives x (and the remainder 0),
as WGSL has it; conversions to integers saturate.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from math import floor, isfinite
from typing import Any

from wgcc.backends.wasm.encoding.instructions import F32, I32, V128, wrap_i32

INTEGERS = ("i32", "u32")
_COMPARED = {"==": "eq", "!=": "ne", "<": "lt", ">": "gt", "<=": "le", ">=": "ge"}
_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul"}
_BITWISE = {"&": "and", "|": "or", "^": "xor", "&&": "and", "||": "or"}
_NAMES = {"+": "add", "-": "sub", "*": "mul", **_COMPARED, "&": "and_", "|": "or_", "^": "xor"}
_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    **{op: getattr(operator, name) for op, name in _NAMES.items()},
    "&&": operator.and_,
    "||": operator.or_,
    "<<": lambda a, b: a << (b & 31),
    ">>": lambda a, b: a >> (b & 31),
}
# Built-in functions of one f32 that are an instruction each.
_ROUNDING = {name: name for name in ("floor", "ceil", "trunc", "sqrt")} | {"round": "nearest"}
# What selects one of the two operands of a comparison: pmax(a, b) is a < b ? b : a.
_EXTREMES = {
    "f32x4.lt": ("f32x4.pmax", "f32x4.pmin"),
    "f32x4.gt": ("f32x4.pmin", "f32x4.pmax"),
}
_LEAST = 0x80000000


class WasmValue:
    """`op` is an instruction, or "const", "local", "call", "each lane", "retype" (no instruction).

    `data` is a constant's 32 bits, a local's index, or what else the instruction needs.
    """

    __slots__ = ("args", "data", "kind", "lanes", "op")

    def __init__(
        self, op: str, kind: str, lanes: int, args: tuple[WasmValue, ...] = (), data: Any = None
    ) -> None:
        self.op = op
        self.kind = kind
        self.lanes = lanes
        self.args = args
        self.data = data

    def type_code(self) -> int:
        if self.lanes > 1:
            return V128
        return F32 if self.kind == "f32" else I32

    @property
    def number(self) -> float | int:
        """The number that a constant holds."""
        if self.kind == "f32":
            return float(struct.unpack("<f", struct.pack("<I", self.data))[0])
        return wrap_i32(self.data) if self.kind in ("i32", "int") else int(self.data)

    def __repr__(self) -> str:
        return f"{self.op}:{self.kind}x{self.lanes}{self.args or ''}{self.data or ''}"


def f32_bits(number: float) -> int:
    """The bits of the nearest f32; beyond the greatest one, that is infinity."""
    try:
        return int(struct.unpack("<I", struct.pack("<f", number))[0])
    except OverflowError:
        return 0x7F800000 if number > 0 else 0xFF800000


class Values:
    """Makes each node once."""

    def __init__(self) -> None:
        self._known: dict[Any, WasmValue] = {}

    def node(
        self, op: str, kind: str, lanes: int, args: tuple[WasmValue, ...] = (), data: Any = None
    ) -> WasmValue:
        key = (op, kind, args, data)
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = WasmValue(op, kind, lanes, args, data)
        return node

    def constant(self, number: float | int | bool, kind: str) -> WasmValue:
        bits = f32_bits(number) if kind == "f32" else int(number) & 0xFFFFFFFF
        return self.node("const", kind, 1, (), bits)

    def local(self, index: int, kind: str, lanes: int) -> WasmValue:
        return self.node("local", kind, lanes, (), (index, lanes))

    def widen(self, value: WasmValue) -> WasmValue:
        """The same in all lanes of a vector."""
        if value.lanes > 1:
            return value
        if value.kind == "f32":
            return self.node("f32x4.splat", "f32", 4, (value,))
        if value.kind == "bool":
            if value.op == "const":
                value = self.constant(-value.number, "i32")
            else:
                value = self.node("i32.sub", "i32", 1, (self.constant(0, "i32"), value))
            return self.node("i32x4.splat", "bool", 4, (value,))
        return self.node("i32x4.splat", value.kind, 4, (value,))

    def retype(self, value: WasmValue, kind: str) -> WasmValue:
        """The same bits as another type of the same register."""
        if value.kind == kind:
            return value
        if value.op == "const":
            return self.node("const", kind, 1, (), value.data)
        while value.op == "retype":
            value = value.args[0]
        return value if value.kind == kind else self.node("retype", kind, value.lanes, (value,))


class Arithmetic(Values):
    def binary(self, op: str, a: WasmValue, b: WasmValue) -> WasmValue:
        if op not in ("<<", ">>"):
            a, b = self.of_one_kind(a, b)
        folded = self._fold(op, a, b)
        if folded is not None:
            return folded
        kind = a.kind
        if op in ("/", "%"):
            return self._divide(a, b) if op == "/" else self._remainder(a, b)
        if op in ("<<", ">>"):
            return self._shift(op, a, b)
        if op in _BITWISE:
            return self._same(f"i32.{_BITWISE[op]}", f"v128.{_BITWISE[op]}", kind, a, b)
        name = _COMPARED.get(op) or _ARITHMETIC[op]
        if op in _COMPARED and kind != "f32" and name not in ("eq", "ne"):
            name += "_u" if kind == "u32" else "_s"
        family = "f32" if kind == "f32" else "i32"
        kind = "bool" if op in _COMPARED else kind
        return self._same(f"{family}.{name}", f"{family}x4.{name}", kind, a, b)

    def of_one_kind(self, a: WasmValue, b: WasmValue) -> tuple[WasmValue, WasmValue]:
        """A literal without a suffix has the other operand's type."""
        if a.kind == b.kind:
            return a, b
        if a.kind == "int":
            return self.convert(a, b.kind), b
        if b.kind == "int":
            return a, self.convert(b, a.kind)
        raise TypeError(f"{a.kind} and {b.kind} in one operation")

    def of_kind(self, value: WasmValue, kind: str) -> WasmValue:
        """A literal without a suffix gets the type that is wanted; others must have it."""
        if value.kind == "int":
            return self.convert(value, kind)
        if value.kind != kind:
            raise TypeError(f"{value.kind} where {kind} is expected")
        return value

    def _same(self, scalar: str, vector: str, kind: str, *args: WasmValue) -> WasmValue:
        """An instruction that exists in both widths."""
        if all(arg.lanes == 1 for arg in args):
            return self.node(scalar, kind, 1, args)
        return self.node(vector, kind, 4, tuple(self.widen(arg) for arg in args))

    def _fold(self, op: str, a: WasmValue, b: WasmValue) -> WasmValue | None:
        fold = _FOLD.get(op)
        if fold is None or a.op != "const" or b.op != "const":
            return self._drop_neutral(op, a, b)
        x, z = a.number, b.number
        if a.kind == "f32" and not (isfinite(x) and isfinite(z)):
            return None
        # Sums and products of f32 are exact or rounded once in f64, then once more: the same bits.
        return self.constant(fold(x, z), "bool" if op in _COMPARED else a.kind)

    def _drop_neutral(self, op: str, a: WasmValue, b: WasmValue) -> WasmValue | None:
        """The operand that the other one leaves as it is: 1 x, and n + 0 of integers."""
        for known, other in ((a, b), (b, a)):
            if known.op != "const":
                continue
            if op == "*" and known.number == 1:
                return other
            if op == "+" and known.data == 0 and known.kind != "f32":
                return other
        return None

    def _shift(self, op: str, a: WasmValue, b: WasmValue) -> WasmValue:
        name = "shl" if op == "<<" else "shr_u" if a.kind == "u32" else "shr_s"
        if b.lanes == 1:
            family = "i32" if a.lanes == 1 else "i32x4"
            return self.node(f"{family}.{name}", a.kind, a.lanes, (a, b))
        return self.node("each lane", a.kind, 4, (self.widen(a), b), f"i32.{name}")

    def _divide(self, a: WasmValue, b: WasmValue) -> WasmValue:
        if a.kind == "f32":
            return self._same("f32.div", "f32x4.div", "f32", a, b)
        if b.op == "const" and a.kind == "u32" and _power_of_two(b.data):
            shift = self.constant(b.data.bit_length() - 1, "u32")
            return self.binary(">>", a, shift)
        return self._quotient(a, self._safe_divisor(a, b))

    def _remainder(self, a: WasmValue, b: WasmValue) -> WasmValue:
        if a.kind == "f32":
            whole = self._same("f32.trunc", "f32x4.trunc", "f32", self._divide(a, b))
            return self.binary("-", a, self.binary("*", whole, b))
        if b.op == "const" and a.kind == "u32" and _power_of_two(b.data):
            return self.binary("&", a, self.constant(b.data - 1, "u32"))
        b = self._safe_divisor(a, b)
        if a.lanes == b.lanes == 1:
            return self.node(f"i32.rem_{'u' if a.kind == 'u32' else 's'}", a.kind, 1, (a, b))
        return self.binary("-", a, self.binary("*", self._quotient(a, b), b))

    def _safe_divisor(self, a: WasmValue, b: WasmValue) -> WasmValue:
        """1 where the quotient does not exist: then it is x, and the remainder 0."""
        if b.op == "const" and b.data not in (0, 0xFFFFFFFF):
            return b
        unsafe = self.binary("==", b, self.constant(0, b.kind))
        if b.kind == "i32":
            least = self.binary("==", a, self.constant(_LEAST, "i32"))
            minus = self.binary("==", b, self.constant(-1, "i32"))
            unsafe = self.binary("||", unsafe, self.binary("&&", least, minus))
        return self.select(b, self.constant(1, b.kind), unsafe)

    def _quotient(self, a: WasmValue, b: WasmValue) -> WasmValue:
        sign = "u" if a.kind == "u32" else "s"
        if a.lanes == b.lanes == 1:
            return self.node(f"i32.div_{sign}", a.kind, 1, (a, b))
        # In f64 the quotient of two words is never rounded up to a whole number that it is below.
        a, b = self.widen(a), self.widen(b)
        halves = []
        for high in (False, True):
            pair = (self._low_pair(a, high), self._low_pair(b, high))
            wide = [self.node(f"f64x2.convert_low_i32x4_{sign}", "f64", 2, (x,)) for x in pair]
            ratio = self.node("f64x2.div", "f64", 2, (wide[0], wide[1]))
            name = f"i32x4.trunc_sat_f64x2_{sign}_zero"
            halves.append(self.node(name, a.kind, 4, (ratio,)))
        return self.node("i8x16.shuffle", a.kind, 4, (halves[0], halves[1]), (0, 1, 4, 5))

    def _low_pair(self, value: WasmValue, high: bool) -> WasmValue:
        if not high:
            return value
        return self.node("i8x16.shuffle", value.kind, 4, (value, value), (2, 3, 2, 3))

    def unary(self, op: str, a: WasmValue) -> WasmValue:
        if op == "!":
            if a.op == "const":
                return self.constant(not a.number, "bool")
            return self._same("i32.eqz", "v128.not", "bool", a)
        if op == "~":
            return self.binary("^", a, self.constant(-1, a.kind))
        if a.op == "const":
            return self.constant(-a.number, a.kind)
        if a.kind == "f32":
            return self._same("f32.neg", "f32x4.neg", "f32", a)
        if a.lanes > 1:
            return self.node("i32x4.neg", a.kind, 4, (a,))
        return self.binary("-", self.constant(0, a.kind), a)

    def select(self, otherwise: WasmValue, then: WasmValue, condition: WasmValue) -> WasmValue:
        """`then` where the condition holds."""
        otherwise, then = self.of_one_kind(otherwise, then)
        if condition.op == "const":
            return then if condition.number else otherwise
        if then is otherwise:
            return then
        if condition.lanes > 1 or then.lanes != otherwise.lanes:
            then, otherwise = self.widen(then), self.widen(otherwise)
        if condition.op in _EXTREMES and then.kind == "f32":
            # `x < 0 ? 0 : x` is one instruction for vectors.
            name = _EXTREMES[condition.op][condition.args == (then, otherwise)]
            if condition.args in ((then, otherwise), (otherwise, then)):
                return self.node(name, "f32", 4, (otherwise, then))
        name = "v128.bitselect" if condition.lanes > 1 else "select"
        return self.node(name, then.kind, then.lanes, (then, otherwise, condition))

    def bitcast(self, value: WasmValue, kind: str) -> WasmValue:
        if value.kind == "int":
            value = self.retype(value, "i32")
        if value.op == "const" or value.lanes > 1 or "f32" not in (value.kind, kind):
            return self.retype(value, kind)
        if value.kind == kind:
            return value
        name = "f32.reinterpret_i32" if kind == "f32" else "i32.reinterpret_f32"
        return self.node(name, kind, 1, (value,))

    def convert(self, value: WasmValue, kind: str) -> WasmValue:
        """`f32(x)` and the like."""
        source = "i32" if value.kind == "int" else value.kind
        if source == kind:
            return self.retype(value, kind)
        if value.op == "const" and kind != "bool" and isfinite(value.number):
            return self._converted_constant(value, kind)
        if kind == "bool":
            zero = self.constant(0, source)
            return self.unary("!", self.binary("==", self.retype(value, source), zero))
        if source == "f32":
            sign = "u" if kind == "u32" else "s"
            names = (f"i32.trunc_sat_f32_{sign}", f"i32x4.trunc_sat_f32x4_{sign}")
            return self._same(*names, kind, value)
        if source == "bool":
            whole = self.node("i32x4.neg", "i32", 4, (value,)) if value.lanes > 1 else value
            return self.convert(self.retype(whole, "i32"), kind)
        if kind != "f32":
            return self.retype(value, kind)
        sign = "u" if source == "u32" else "s"
        return self._same(f"f32.convert_i32_{sign}", f"f32x4.convert_i32x4_{sign}", "f32", value)

    def _converted_constant(self, value: WasmValue, kind: str) -> WasmValue:
        number = value.number
        if value.kind == "f32":
            low, high = (0, 2**32 - 1) if kind == "u32" else (-(2**31), 2**31 - 1)
            number = min(max(int(number), low), high)
        return self.constant(number, kind)

    def built_in(self, name: str, args: list[WasmValue]) -> WasmValue | None:
        """None if there is no such function here."""
        if name in ("min", "max"):
            return self.extreme(name, *args)
        if name == "clamp":
            x, low, high = args
            return self.extreme("min", self.extreme("max", x, low), high)
        rule = _RULES.get(name)
        return rule(self, *args) if rule else None

    def extreme(self, name: str, a: WasmValue, b: WasmValue) -> WasmValue:
        a, b = self.of_one_kind(a, b)
        if a.kind == "f32":
            return self._same(f"f32.{name}", f"f32x4.{name}", "f32", a, b)
        if a.lanes == b.lanes == 1:
            return self.select(b, a, self.binary("<" if name == "min" else ">", a, b))
        sign = "u" if a.kind == "u32" else "s"
        return self._same("", f"i32x4.{name}_{sign}", a.kind, a, b)

    def rounding(self, name: str, x: WasmValue) -> WasmValue:
        if name == "floor" and x.op == "const" and isfinite(x.number):
            return self.constant(float(floor(x.number)), "f32")
        instruction = _ROUNDING[name]
        return self._same(f"f32.{instruction}", f"f32x4.{instruction}", "f32", x)

    def abs(self, x: WasmValue) -> WasmValue:
        if x.op == "const" and x.kind == "f32":
            return self.constant(abs(x.number), "f32")
        if x.kind == "f32":
            return self._same("f32.abs", "f32x4.abs", "f32", x)
        if x.lanes > 1 or x.kind == "u32":
            return x if x.kind == "u32" else self.node("i32x4.abs", "i32", 4, (x,))
        return self.select(x, self.unary("-", x), self.binary("<", x, self.constant(0, "i32")))

    def sign(self, x: WasmValue) -> WasmValue:
        """NaN stays NaN; -0 gives 0."""
        zero, one = self.constant(0, x.kind), self.constant(1, x.kind)
        y = self.select(x, zero, self.binary("==", x, zero))
        y = self.select(y, one, self.binary(">", x, zero))
        return self.select(y, self.constant(-1, x.kind), self.binary("<", x, zero))

    def fract(self, x: WasmValue) -> WasmValue:
        return self.binary("-", x, self.rounding("floor", x))

    def extract_bits(self, x: WasmValue, offset: WasmValue, count: WasmValue) -> WasmValue:
        """Some bits of a word; those of an i32 are a number with a sign."""
        whole, count = self.constant(32, "u32"), self.of_kind(count, "u32")
        left = self.binary("-", whole, self.binary("+", self.of_kind(offset, "u32"), count))
        return self.binary(">>", self.binary("<<", x, left), self.binary("-", whole, count))

    def multiply_add(self, a: WasmValue, b: WasmValue, c: WasmValue) -> WasmValue:
        """Rounded twice, as everywhere here: plain SIMD has no fused form."""
        return self.binary("+", self.binary("*", a, b), c)


def _power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _rounding(name: str) -> Callable[..., WasmValue]:
    return lambda arithmetic, x: arithmetic.rounding(name, x)


_RULES: dict[str, Callable[..., WasmValue]] = {
    **{name: _rounding(name) for name in _ROUNDING},
    "abs": Arithmetic.abs,
    "sign": Arithmetic.sign,
    "inverseSqrt": lambda a, x: a.binary("/", a.constant(1.0, "f32"), a.rounding("sqrt", x)),
    "fract": Arithmetic.fract,
    "extractBits": Arithmetic.extract_bits,
    "fma": Arithmetic.multiply_add,
    "select": Arithmetic.select,
}
