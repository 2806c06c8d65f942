"""Variables of a kernel in memory, and which of their bytes an expression names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from wgcc.access.values import FLOAT, MAYBE, Ids, Value, cast, is_varying
from wgcc.ir.dtypes import F16, FLOATS
from wgcc.kernel.tree import Element, Expr, Member, Module, Name
from wgcc.lazy_numpy import np

_SIZES = {"bool": 4, "f32": 4, "u32": 4, "i32": 4, F16: 2, "atomic<u32>": 4}
_COMPONENTS = "xyzw"


@dataclass(frozen=True, slots=True)
class Variable:
    """`kind` is the type of an element, if it is an array."""

    name: str
    space: str
    kind: str

    @property
    def size(self) -> int:
        return size_of(self.kind)


@dataclass(frozen=True, slots=True)
class Reference:
    """`size` bytes from `offset` of element `index` on, as a value of type `kind`."""

    variable: Variable
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


def variables_of(module: Module) -> dict[str, Variable]:
    found = {}
    for name, declared in module.variables.items():
        array = re.fullmatch(r"array<(.+?)(?:, [^,]+)?>", declared.kind)
        found[name] = Variable(name, declared.space, array[1] if array else declared.kind)
    return found


def reference(
    expr: Expr, variables: dict[str, Variable], value_of: Callable[[Expr], Value]
) -> Reference | None:
    """What an expression names in memory, if it does; `value_of` evaluates indices."""
    match expr:
        case Name(name) if name in variables:
            return Reference(variables[name], 0, 0, variables[name].kind)
        case Element(Name(name), index) if name in variables:
            at, kind = value_of(index), variables[name].kind
            if is_vector(variables[name], expr):
                return _component(Reference(variables[name], 0, 0, kind), at)
            return Reference(variables[name], at, 0, kind)
        case Member(whole, field) if len(field) == 1:
            found = reference(whole, variables, value_of)
            return found and _component(found, _COMPONENTS.index(field))
        case Element(Element() as whole, index):
            found = reference(whole, variables, value_of)
            return found and _component(found, value_of(index))
    return None


def is_vector(variable: Variable, expr: Expr) -> bool:
    """Uniforms are single vectors."""
    return variable.space == "uniform"


def unknown(found: Reference) -> Value:
    """What a load gives: integers at one address for all lanes are taken for 0."""
    kind, address = found.kind, found.address
    if found.kind.startswith("vec"):
        part = Reference(found.variable, found.index, found.offset, kind[5:-1])
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
