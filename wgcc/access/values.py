"""Values of all lanes of a workgroup at once. Only integers and truth are computed.

An integer or a truth value is a numpy scalar, if all lanes have the same, or an array of one per
lane. What is read from memory is unknown: numbers of floats never matter here (`FLOAT`), integers
are indices of some table (`Ids`), of which each lane has another one. `MAYBE` is a condition that
depends on such numbers. A vector is a tuple, an array a list, a struct a dict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wgcc.ir.dtypes import FLOATS
from wgcc.lazy_numpy import Array, np


class Float:
    def __repr__(self) -> str:
        return "FLOAT"


class Maybe:
    def __repr__(self) -> str:
        return "MAYBE"


FLOAT, MAYBE = Float(), Maybe()


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


def known(value: Value) -> Value:
    """An integer that arithmetic can be done with."""
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


def chosen(mask: Value, new: Value, old: Value) -> Value:
    """`new` in the lanes of the mask."""
    if mask is True or new is old or old is None:
        return new
    if isinstance(new, tuple) and isinstance(old, tuple):
        return tuple(chosen(mask, *pair) for pair in zip(new, old, strict=True))
    if isinstance(new, Float | Maybe | Ids | list | dict) or isinstance(old, Maybe | Ids):
        return new
    return np.asarray(np.where(mask, new, old), getattr(new, "dtype", np.int64))
