"""The nodes of the syntax tree for expressions and types (see `wgcc.syntax.ast`)."""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.errors import Span


@dataclass(slots=True, eq=False)
class Syntax:
    """Any node of the tree."""

    span: Span


@dataclass(slots=True, eq=False)
class Identifier(Syntax):
    text: str


@dataclass(slots=True, eq=False)
class Broken(Syntax):
    names: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Name(Syntax):
    text: str


@dataclass(slots=True, eq=False)
class Int(Syntax):
    value: int


@dataclass(slots=True, eq=False)
class Float(Syntax):
    value: float


@dataclass(slots=True, eq=False)
class String(Syntax):
    """`span` includes the quotes; `value` is the text between them."""

    value: str


@dataclass(slots=True, eq=False)
class Bool(Syntax):
    value: bool


@dataclass(slots=True, eq=False)
class Dtype(Syntax):
    name: str


@dataclass(slots=True, eq=False)
class TupleExpr(Syntax):
    items: tuple[Expr, ...]


@dataclass(slots=True, eq=False)
class ListExpr(Syntax):
    items: tuple[Expr, ...]


@dataclass(slots=True, eq=False)
class IfExpr(Syntax):
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(slots=True, eq=False)
class Pipe(Syntax):
    """`value |> target`: `target` is a function, or a call that gets `value` as first argument."""

    value: Expr
    target: Expr


@dataclass(slots=True, eq=False)
class Binary(Syntax):
    """`op` is one of `+ - * / % ** @ == != < <= > >= and or`; `op_span` is its place."""

    op: str
    left: Expr
    right: Expr
    op_span: Span


@dataclass(slots=True, eq=False)
class Unary(Syntax):
    """`op` is `-` or `not`."""

    op: str
    operand: Expr


@dataclass(slots=True, eq=False)
class Range(Syntax):
    low: Expr
    high: Expr
    step: Expr | None


@dataclass(slots=True, eq=False)
class Member(Syntax):
    value: Expr
    name: Identifier


@dataclass(slots=True, eq=False)
class Argument(Syntax):
    """One argument of a call; `name` is given for `name = value`."""

    name: Identifier | None
    value: Expr


@dataclass(slots=True, eq=False)
class Call(Syntax):
    function: Expr
    arguments: tuple[Argument, ...]


@dataclass(slots=True, eq=False)
class Index(Syntax):
    value: Expr
    items: tuple[IndexItem, ...]


@dataclass(slots=True, eq=False)
class Slice(Syntax):
    start: Expr | None
    stop: Expr | None
    step: Expr | None


@dataclass(slots=True, eq=False)
class Window(Syntax):
    """`start +: length`."""

    start: Expr
    length: Expr


@dataclass(slots=True, eq=False)
class Rest(Syntax):
    """`..`: all leading axes."""


@dataclass(slots=True, eq=False)
class NewAxis(Syntax):
    """`new`."""


Expr = (
    Name | Int | Float | String | Bool | Dtype | TupleExpr | ListExpr | IfExpr | Pipe | Binary
    | Unary | Range | Member | Call | Index | Broken
)  # fmt: skip
IndexItem = Expr | Slice | Window | Rest | NewAxis


@dataclass(slots=True, eq=False)
class TypeExpr(Syntax):
    """`f32[B, .., D]`: `name` is a dtype or an alias, `dims` is empty for a scalar.

    `any_float` is the `?` of `f32?[B]`: the numbers may be NaN or infinite.
    """

    name: Identifier
    dims: tuple[Expr | Rest, ...]
    any_float: Identifier | None = None
