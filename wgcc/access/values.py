"""Values of all lanes of a workgroup at once. Only integers and truth are computed.

An integer or a truth value is a numpy scalar, if all lanes have the same, or an array of one per
lane. What is read from memory is unknown: numbers of floats never matter here (`FLOAT`), integers
are indices of some table (`Ids`), of which each lane has another one. `MAYBE` is a condition that
depends on such numbers. A vector is a tuple, an array a list, a struct a dict.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wgcc.ir.dtypes import F16, FLOATS
from wgcc.kernel.parse import parse_expression
from wgcc.kernel.tree import Element, Expr, Member, Module, Name
from wgcc.lazy_numpy import Array, np


class UnknownFloat:
    def __repr__(self) -> str:
        return "FLOAT"


class Maybe:
    def __repr__(self) -> str:
        return "MAYBE"


FLOAT, MAYBE = UnknownFloat(), Maybe()


@dataclass(frozen=True, slots=True, eq=False)
class Ids:
    """Unknown integers: evenly distributed over whatever range they turn out to have."""

    seeds: Array

    def below(self, limit: int) -> Array:
        return (self.seeds % max(limit, 1)).astype(np.uint32)


# What an unknown integer is, if nothing says how large it may be.
ID_LIMIT = 1024
Value = Any
LANE_TYPES = {"u32": "uint32", "i32": "int32", "bool": "bool"}


def zero_of(kind: str, length: int = 1) -> Value:
    """The value of `var x: kind;`; `length` is that of an array."""
    if kind.startswith("array<"):
        element = kind.removeprefix("array<").rsplit(",", 1)[0]
        return [zero_of(element) for _ in range(length)]
    if kind.startswith("vec"):
        return (zero_of(kind[5:-1]),) * int(kind[3])
    return FLOAT if kind in FLOATS else cast(kind, 0)


def cast(kind: str, value: Value) -> Value:
    """A conversion to u32, i32 or bool."""
    if value is MAYBE or (kind == "bool" and (value is FLOAT or isinstance(value, Ids))):
        return MAYBE
    if isinstance(value, int):
        value = np.int64(value)
    return value.astype(getattr(np, LANE_TYPES[kind] + ("_" if kind == "bool" else "")))


def integers_of(value: Value) -> Value:
    """Replaces unknown integers by numbers that arithmetic can be done with."""
    return value.below(ID_LIMIT) if isinstance(value, Ids) else value


def is_varying(value: Value) -> bool:
    return isinstance(value, Ids) or getattr(value, "ndim", 0) > 0


def words(value: Value) -> int:
    """The registers it takes in each lane; what is the same for all lanes takes none."""
    if isinstance(value, tuple | list):
        return sum(words(part) for part in value)
    if isinstance(value, dict):
        return sum(words(part) for part in value.values())
    return int(value is FLOAT or is_varying(value))


def choose(mask: Value, new: Value, old: Value) -> Value:
    """`new` in the lanes of the mask, `old` in the others."""
    if mask is True or new is old or old is None:
        return new
    if isinstance(new, tuple) and isinstance(old, tuple):
        return tuple(choose(mask, *pair) for pair in zip(new, old, strict=True))
    if isinstance(new, UnknownFloat | Maybe | Ids | list | dict) or isinstance(old, Maybe | Ids):
        return new
    return np.asarray(np.where(mask, new, old), getattr(new, "dtype", np.int64))


_SIZES = {"bool": 4, "f32": 4, "u32": 4, "i32": 4, F16: 2, "atomic<u32>": 4}
_COMPONENTS = "xyzw"


@dataclass(frozen=True, slots=True)
class KernelVariable:
    """`kind` is the type of an element, if it is an array; arrays in it have these `lengths`."""

    name: str
    space: str
    kind: str
    is_array: bool
    lengths: tuple[str, ...] = ()

    @property
    def depth(self) -> int:
        """Indices that name one element."""
        return len(self.lengths) + self.is_array

    @property
    def size(self) -> int:
        return size_of(self.kind)


@dataclass(frozen=True, slots=True)
class Reference:
    """`size` bytes from `offset` of element `index` on, as a value of type `kind`."""

    variable: KernelVariable
    index: Value
    offset: Value
    kind: str

    @property
    def size(self) -> int:
        return size_of(self.kind)

    @property
    def address(self) -> Value:
        return np.int64(self.variable.size) * _wide(self.index) + _wide(self.offset)


def size_of(kind: str) -> int:
    return int(kind[3]) * _SIZES[kind[5:-1]] if kind.startswith("vec") else _SIZES[kind]


def variables_of(module: Module) -> dict[str, KernelVariable]:
    variables = {}
    for name, declared in module.variables.items():
        kind, lengths = declared.kind, list[str]()
        while kind.startswith("array<"):
            array = re.fullmatch(r"array<(.+?)(?:, ([^,>]+))?>", kind)
            assert array is not None
            kind = array[1]
            lengths.append(array[2] or "")
        variables[name] = KernelVariable(
            name, declared.space, kind, bool(lengths), tuple(lengths[1:])
        )
    return variables


def reference(
    expr: Expr, variables: dict[str, KernelVariable], value_of: Callable[[Expr], Value]
) -> Reference | None:
    """The place in memory that an expression names, if any; `value_of` evaluates indices."""
    match expr:
        case Name(name) if name in variables:
            return Reference(variables[name], 0, 0, variables[name].kind)
        case Member(whole, field) if len(field) == 1:
            vector = reference(whole, variables, value_of)
            return vector and _component(vector, _COMPONENTS.index(field))
        case Element(whole, index):
            name, indices = _indices_of(expr)
            variable = variables.get(name)
            if variable is not None and len(indices) == variable.depth:
                return Reference(variable, _number(variable, indices, value_of), 0, variable.kind)
            vector = reference(whole, variables, value_of)
            return vector and _component(vector, value_of(index))
    return None


def _indices_of(expr: Expr) -> tuple[str, list[Expr]]:
    """The name of what is indexed, or "", and the indices, outermost first."""
    indices = list[Expr]()
    while isinstance(expr, Element):
        indices.insert(0, expr.index)
        expr = expr.whole
    return (expr.name if isinstance(expr, Name) else ""), indices


def _number(
    variable: KernelVariable, indices: list[Expr], value_of: Callable[[Expr], Value]
) -> Value:
    """The number of an element of arrays in arrays; a single index is left as it is."""
    number = value_of(indices[0])
    for index, length in zip(indices[1:], variable.lengths, strict=True):
        size = np.int64(value_of(parse_expression(length)))
        number = _wide(number) * size + _wide(value_of(index))
    return number


def unknown(place: Reference) -> Value:
    """The value that a load gives: integers at one address for all lanes are taken for 0."""
    kind, address = place.kind, place.address
    if place.kind.startswith("vec"):
        part = Reference(place.variable, place.index, place.offset, kind[5:-1])
        return (unknown(part),) * int(kind[3])
    if kind in FLOATS:
        return FLOAT
    if kind == "bool":
        return MAYBE
    if not is_varying(address):
        return cast("i32" if kind == "i32" else "u32", 0)
    return Ids((address * 2654435761 >> 9) & 0xFFFFFF)


def _component(whole: Reference, number: Value) -> Reference | None:
    if not whole.kind.startswith("vec"):
        return None
    kind = whole.kind[5:-1]
    return Reference(whole.variable, whole.index, _wide(number) * size_of(kind), kind)


def _wide(value: Value) -> Value:
    if isinstance(value, Ids):
        value = value.below(1 << 16)
    return np.int64(0) if value is FLOAT else np.asarray(value).astype(np.int64)[()]
