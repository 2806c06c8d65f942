"""Evaluates expressions for all lanes of a workgroup, and counts instructions and accesses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from wgcc.access.traffic import SharedSite, Site, Traffic
from wgcc.access.values import (
    FLOAT,
    LANE_TYPES,
    MAYBE,
    Ids,
    Reference,
    Value,
    cast,
    integers_of,
    is_varying,
    reference,
    unknown,
    variables_of,
    zero_of,
)
from wgcc.ir.dtypes import F16, FLOATS
from wgcc.kernel.parse import parse_expression
from wgcc.kernel.tree import (
    Binary,
    Call,
    Element,
    Expr,
    Literal,
    Member,
    Module,
    Name,
    Unary,
)
from wgcc.lazy_numpy import Array, np

# Functions that the special units compute, at a quarter of the rate.
_SLOW = re.compile("exp2?|log2?|sqrt|inverseSqrt|sin|cos|tanh|pow")
_OPERATIONS: Mapping[str, str] = {
    **{"+": "add", "-": "subtract", "*": "multiply", "&": "bitwise_and", "|": "bitwise_or"},
    **{"^": "bitwise_xor", "<<": "left_shift", ">>": "right_shift", "/": "floor_divide"},
    **{"%": "remainder", "<": "less", ">": "greater", "<=": "less_equal", ">=": "greater_equal"},
    **{"==": "equal", "!=": "not_equal", "&&": "logical_and", "||": "logical_or"},
}
_TRUTH = {"<", ">", "<=", ">=", "==", "!=", "&&", "||"}
_BARRIERS = {"workgroupBarrier", "storageBarrier"}


@dataclass(slots=True)
class Counts:
    """Instructions of all subgroups together: multiply-adds, other floats, integers.

    `barriers` are those of all workgroups together.
    """

    fma: float = 0.0
    floats: float = 0.0
    integers: float = 0.0
    barriers: float = 0.0


@dataclass(slots=True)
class Frame:
    """A running function: its scopes, innermost last, and which lanes have returned."""

    scopes: list[dict[str, Value]]
    gone: Array
    result: Value = None

    def get(self, name: str) -> Value:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None


@dataclass(slots=True)
class Machine:
    """The state of a workgroup. `mask`: the active lanes; `weight`: how often this happens."""

    module: Module
    lanes: int
    constants: dict[str, Value] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    counts: Counts = field(default_factory=Counts)
    weight: float = 1.0
    registers: dict[int, int] = field(default_factory=dict)
    mask: Array = field(init=False)
    frame: Frame = field(init=False)
    call: Callable[[Any, list[Value]], Value] = field(init=False)
    _variables: dict[str, Any] = field(init=False)
    _before: dict[int, Value] = field(default_factory=dict)
    _counted: tuple[Array | None, int] = (None, 0)
    _kept: dict[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._variables = variables_of(self.module)
        for name, expr in self.module.constants.items():
            self.constants[name] = self.value(expr)

    def start(self) -> None:
        """A new workgroup: nothing is hoisted from the one before."""
        self._before.clear()
        self._kept.clear()

    @property
    def subgroups(self) -> int:
        """How many subgroups of 32 lanes have an active lane."""
        if self._counted[0] is not self.mask:
            rows = np.pad(self.mask, (0, -self.lanes % 32)).reshape(-1, 32)
            self._counted = (self.mask, int(rows.any(axis=1).sum()))
        return self._counted[1]

    def length_of(self, kind: str) -> int:
        """The length of an array type, whose text may name constants; 1 for other types."""
        if not kind.startswith("array<"):
            return 1
        return int(self.value(parse_expression(kind[:-1].rsplit(",", 1)[1].strip())))

    def value(self, expr: Expr) -> Value:
        match expr:
            case Literal(value, kind):
                return _literal(value, kind)
            case Name(name):
                return self._name(expr, name)
            case Unary("&", operand):
                return operand
            case Unary(op, operand):
                return self._unary(op, self.value(operand))
            case Binary(op, left, right):
                return self._binary(expr, op, self.value(left), self.value(right))
            case Call(name, args):
                return self._call(expr, name, args)
        place = reference(expr, self._variables, self.value)
        if place is not None:
            return self.load(expr, place)
        return self._part(expr)

    def _part(self, expr: Expr) -> Value:
        """A component of a vector, an element of an array, a field of a struct."""
        assert isinstance(expr, Member | Element)
        whole = self.value(expr.whole)
        if isinstance(expr, Member):
            if isinstance(whole, dict):
                return whole[expr.field]
            parts = tuple(whole["xyzw".index(letter)] for letter in expr.field)
            return parts[0] if len(parts) == 1 else parts
        index = self.value(expr.index)
        if not is_varying(index) and index is not FLOAT:
            return whole[int(index) % len(whole)]
        return whole[0] if whole[0] is FLOAT else Ids(np.arange(self.lanes))

    def _name(self, expr: Expr, name: str) -> Value:
        local = self.frame.get(name) if hasattr(self, "frame") else None
        if local is not None:
            return local
        if name in self._variables:
            place = reference(expr, self._variables, self.value)
            assert place is not None
            return self._kept.get(name, self.load(expr, place))
        return self.constants[name]

    def load(self, expr: Expr, place: Reference) -> Value:
        self._touch(expr, place, is_store=False)
        return unknown(place)

    def store(self, expr: Expr, value: Value) -> None:
        place = reference(expr, self._variables, self.value)
        assert place is not None, expr
        self._touch(expr, place, is_store=True)
        if isinstance(expr, Name):
            self._kept[expr.name] = value

    def _touch(self, expr: Expr, place: Reference, is_store: bool) -> None:
        space, name = place.variable.space, place.variable.name
        if space in ("uniform", "private"):
            return
        addresses = np.broadcast_to(place.address, (self.lanes,))
        key = id(expr) * 2 + is_store
        if space == "workgroup":
            shared = self.traffic.shared.setdefault(key, SharedSite(name, is_store))
            self.traffic.share(shared, addresses, place.size, self.mask, self.weight)
        else:
            site = self.traffic.sites.setdefault(key, Site(name, is_store, place.size))
            self.traffic.touch(site, addresses, self.mask, self.weight)

    def _count(self, expr: Expr, value: Value, fma: bool = False, slow: bool = False) -> Value:
        """Counts the instructions that made a value."""
        if isinstance(value, tuple):
            for part in value:
                self._count_one(expr, part, fma, slow)
        else:
            self._count_one(expr, value, fma, slow)
        return value

    def _count_one(self, expr: Expr, value: Value, fma: bool, slow: bool) -> None:
        cost = self.subgroups * self.weight * (4 if slow else 1)
        if value is FLOAT or value is MAYBE:
            if fma:
                self.counts.fma += cost
            else:
                self.counts.floats += cost
        elif is_varying(value):
            before = self._before.get(id(expr))
            self._before[id(expr)] = value
            if before is None:
                self.counts.integers += self.subgroups
            elif isinstance(value, Ids) or not np.array_equal(before, value):
                # What is the same as in the iteration before was hoisted.
                self.counts.integers += cost

    def _unary(self, op: str, value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(self._unary(op, part) for part in value)
        if value is FLOAT or value is MAYBE:
            return value
        value = integers_of(value)
        if op == "!":
            return np.logical_not(value)
        return np.invert(value) if op == "~" else np.negative(value)

    def _binary(self, expr: Expr, op: str, left: Value, right: Value) -> Value:
        if isinstance(left, tuple) or isinstance(right, tuple):
            size = len(left if isinstance(left, tuple) else right)
            pairs = zip(_spread(left, size), _spread(right, size), strict=True)
            return tuple(self._binary(expr, op, a, b) for a, b in pairs)
        outcome = _operate(op, left, right)
        # A product that is added at once is one instruction.
        return outcome if op == "+" and _is_product(expr) else self._count(expr, outcome)

    def _call(self, expr: Expr, name: str, args: tuple[Expr, ...]) -> Value:
        function = self.module.functions.get(name)
        if function is not None:
            return self.call(function, [self.value(arg) for arg in args])
        if name in _BARRIERS:
            self.counts.barriers += self.weight
            return None
        if name == "workgroupUniformLoad":
            # One before the load, one after it.
            self.counts.barriers += 2 * self.weight
        if name == "workgroupUniformLoad" or name.startswith("atomic"):
            pointer = args[0].operand if isinstance(args[0], Unary) else args[0]
            return self.value(pointer)
        values = [self.value(arg) for arg in args]
        if name in self.module.structs:
            fields = self.module.structs[name].fields
            return {field: value for (field, _), value in zip(fields, values, strict=True)}
        if name.startswith(("vec", "array<")):
            return self._construct(name, values)
        if name.startswith("bitcast<") or name in (*LANE_TYPES, "f32", F16):
            return self._convert(name.removeprefix("bitcast<").rstrip(">"), values)
        outcome = _built_in(name, values, self.lanes)
        if name == "dot":
            self.counts.fma += self.subgroups * self.weight * (len(values[0]) - 1)
        return self._count(
            expr, outcome, fma=name in ("fma", "dot"), slow=_SLOW.fullmatch(name) is not None
        )

    def _construct(self, kind: str, values: list[Value]) -> Value:
        if kind.startswith("array<"):
            return list(values) or zero_of(kind, self.length_of(kind))
        size, inner = int(kind[3]), kind[5:-1] or "f32"
        flat = [p for value in values for p in (value if isinstance(value, tuple) else (value,))]
        if not flat:
            return zero_of(f"vec{size}<{inner}>")
        flat = flat * size if len(flat) == 1 else flat
        return tuple(self._convert(inner, [part]) for part in flat)

    def _convert(self, kind: str, values: list[Value]) -> Value:
        value = values[0] if values else 0
        if isinstance(value, tuple):
            return tuple(self._convert(kind[5:-1] or kind, [part]) for part in value)
        if kind in FLOATS:
            return FLOAT
        if value is FLOAT or value is MAYBE:
            return MAYBE if kind == "bool" else Ids(np.arange(self.lanes) * 7919)
        return value if isinstance(value, Ids) else cast(kind, value)


def _literal(value: float | int | bool, kind: str) -> Value:
    if kind in FLOATS:
        return FLOAT
    if kind == "int":
        return int(value)
    return cast(kind, int(value))


def _spread(value: Value, size: int) -> tuple[Value, ...]:
    return value if isinstance(value, tuple) else (value,) * size


def _is_product(expr: Expr) -> bool:
    return isinstance(expr, Binary) and any(
        isinstance(side, Binary) and side.op == "*" for side in (expr.left, expr.right)
    )


def _operate(op: str, left: Value, right: Value) -> Value:
    if op in ("&&", "||") and (left is MAYBE or right is MAYBE):
        other = right if left is MAYBE else left
        return MAYBE if op == "||" else other
    unknown = any(side is FLOAT or side is MAYBE for side in (left, right))
    ids = isinstance(left, Ids) or isinstance(right, Ids)
    if op in _TRUTH and (unknown or ids):
        return MAYBE
    if unknown:
        return FLOAT
    a, b = _same_kind(integers_of(left), integers_of(right))
    if op in ("<<", ">>"):
        b = np.asarray(b).astype(np.uint32)[()]
        b = np.asarray(b).astype(getattr(a, "dtype", np.int64))[()]
    if isinstance(a, int) and isinstance(b, int) and op in ("/", "%"):
        return a // b if op == "/" else a % b
    return getattr(np, _OPERATIONS[op])(a, b)


def _same_kind(a: Value, b: Value) -> tuple[Value, Value]:
    """A number without a type has that of the other."""
    if isinstance(a, int) and not isinstance(b, int):
        return np.int64(a).astype(b.dtype), b
    if isinstance(b, int) and not isinstance(a, int):
        return a, np.int64(b).astype(a.dtype)
    return a, b


def _built_in(name: str, values: list[Value], lanes: int) -> Value:
    # All invocations of a subgroup are there, and agree.
    if name == "subgroupBallot":
        return (np.uint32(0xFFFFFFFF),) * 4
    if name == "subgroupAll":
        return np.bool_(True)
    size = max((len(v) for v in values if isinstance(v, tuple)), default=0)
    if name == "dot":
        return FLOAT
    if name in ("all", "any"):
        parts, both = values[0], np.logical_and if name == "all" else np.logical_or
        return MAYBE if any(p is MAYBE for p in parts) else reduce(both, parts)
    if size:
        parts = zip(*(_spread(value, size) for value in values), strict=True)
        return tuple(_built_in(name, list(part), lanes) for part in parts)
    if name == "select":
        return _select(*values)
    if FLOAT in [v for v in values if v is FLOAT]:
        return FLOAT
    if name in ("min", "max", "clamp"):
        return _bound(name, values)
    if name == "abs":
        return np.abs(integers_of(values[0]))
    return Ids(np.arange(lanes) * 7919)


def _select(no: Value, yes: Value, condition: Value) -> Value:
    if condition is MAYBE or yes is FLOAT or no is FLOAT:
        return yes
    if isinstance(yes, Ids) or isinstance(no, Ids):
        return yes if isinstance(yes, Ids) else no
    a, b = _same_kind(no, yes)
    if isinstance(a, int | bool):
        a, b = np.int64(a), np.int64(b)
    return np.asarray(np.where(condition, b, a), getattr(b, "dtype", bool))[()]


def _bound(name: str, values: list[Value]) -> Value:
    first, *limits = values
    if isinstance(first, Ids):
        most = int(np.asarray(integers_of(limits[-1])).max())
        return first if name == "max" else first.below(most + 1)
    if name == "clamp":
        return _bound("min", [_bound("max", [first, limits[0]]), limits[1]])
    a, b = _same_kind(first, integers_of(limits[0]))
    return np.minimum(a, b) if name == "min" else np.maximum(a, b)
