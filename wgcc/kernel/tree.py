"""The subset of WGSL that ops are written in, as a tree.

Expressions may hold the placeholders of an op's pattern (`{0}`, `{i}`): they are names. Types are
their text, in the long form (`vec2<u32>`, never `vec2u`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Literal:
    value: float | int | bool
    kind: str  # "int" where the text leaves open whether it is i32, u32 or f32; else a type


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Unary:
    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Call:
    """A function, a built-in, a conversion (`f32`, `vec2<u32>`) or `bitcast<u32>`."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Member:
    whole: Expr
    field: str


@dataclass(frozen=True, slots=True)
class Element:
    whole: Expr
    index: Expr


Expr = Literal | Name | Unary | Binary | Call | Member | Element


def parts_of(expr: Expr) -> Iterator[Expr]:
    """An expression and all inside it."""
    yield expr
    match expr:
        case Literal() | Name():
            return
        case Unary(_, operand):
            yield from parts_of(operand)
        case Binary(_, left, right):
            yield from parts_of(left)
            yield from parts_of(right)
        case Call(_, args):
            for arg in args:
                yield from parts_of(arg)
        case Member(whole, _):
            yield from parts_of(whole)
        case Element(whole, index):
            yield from parts_of(whole)
            yield from parts_of(index)


@dataclass(frozen=True, slots=True)
class Let:
    """`let`, or `var` if it is `mutable`; a `var` may come with its type alone."""

    name: str
    kind: str | None
    value: Expr | None
    mutable: bool


@dataclass(frozen=True, slots=True)
class Assign:
    """`x += 1` is assigned as `x = x + 1`."""

    target: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: tuple[Statement, ...]
    other: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """`for` and `while`: `before` runs once, `after` at the end of each iteration."""

    before: tuple[Statement, ...]
    condition: Expr
    after: tuple[Statement, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Return:
    value: Expr | None


@dataclass(frozen=True, slots=True)
class Run:
    """A call whose result is not used."""

    call: Expr


Statement = Let | Assign | If | Loop | Return | Run


@dataclass(frozen=True, slots=True)
class FunctionDef:
    name: str
    params: tuple[tuple[str, str], ...]
    result: str | None
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class ModuleVariable:
    """A binding (`storage`, `uniform`) or a variable in workgroup memory (`workgroup`)."""

    space: str
    kind: str


@dataclass(frozen=True, slots=True)
class Module:
    """A kernel. A parameter of `main` has its built-in as its type: `@workgroup_id`."""

    constants: dict[str, Expr]
    variables: dict[str, ModuleVariable]
    structs: dict[str, tuple[str, ...]]
    functions: dict[str, FunctionDef]
    workgroup: tuple[Expr, ...]
