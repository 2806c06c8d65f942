"""What the names in a kernel's text stand for while it is written: values, variables, bindings."""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.backends.wasm.encoding.encoder import F32, I32, V128
from wgcc.backends.wasm.kernels.span import WORD
from wgcc.ir.index import Index


class Unvectorisable(Exception):
    """Lanes would have to do different things."""


@dataclass(frozen=True, slots=True)
class Held:
    """A value: a position that is known as such, a constant, or what a local holds.

    `depth`: the innermost scope that it depends on.
    """

    kind: str
    lanes: int = 1
    local: int = -1
    index: Index | None = None
    number: float | int | bool | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """`select(0u, index, condition)`: a position in a tensor, or 0 beyond its border."""

    index: Index
    condition: Held


@dataclass(frozen=True, slots=True)
class Mutable:
    kind: str
    lanes: int
    local: int


@dataclass(frozen=True, slots=True)
class Storage:
    """A binding: the local with its address, the kind of its elements.

    Its positions count words, or bytes (`unit` 1), which are loaded as whole numbers.
    """

    local: int
    kind: str
    written: bool
    unit: int = WORD


Thing = Held | Mutable | Storage
Env = dict[str, Thing]


def type_code(kind: str, lanes: int) -> int:
    if lanes > 1:
        return V128
    return F32 if kind == "f32" else I32
