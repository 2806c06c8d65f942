"""The syntax tree of a `.wg` file: what was written, with its place. It knows no shapes and no ops.

`Broken` stands where a statement, member or item did not parse: the error has been reported, and
`names` are the names it might have bound, so that later phases stay silent about them.
"""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.errors import Span


@dataclass(frozen=True, slots=True)
class Syntax:
    """Any piece of the tree."""

    span: Span


@dataclass(frozen=True, slots=True)
class Identifier(Syntax):
    text: str


@dataclass(frozen=True, slots=True)
class Broken(Syntax):
    names: tuple[str, ...] = ()


# Expressions


@dataclass(frozen=True, slots=True)
class Name(Syntax):
    text: str


@dataclass(frozen=True, slots=True)
class Int(Syntax):
    value: int


@dataclass(frozen=True, slots=True)
class Float(Syntax):
    value: float


@dataclass(frozen=True, slots=True)
class String(Syntax):
    """`span` includes the quotes; `value` is the text between them."""

    value: str


@dataclass(frozen=True, slots=True)
class Bool(Syntax):
    value: bool


@dataclass(frozen=True, slots=True)
class Dtype(Syntax):
    name: str


@dataclass(frozen=True, slots=True)
class TupleExpr(Syntax):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class ListExpr(Syntax):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class IfExpr(Syntax):
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Pipe(Syntax):
    """`value |> target`: `target` is a function, or a call that gets `value` as first argument."""

    value: Expr
    target: Expr


@dataclass(frozen=True, slots=True)
class Binary(Syntax):
    """`op` is one of `+ - * / % ** @ == != < <= > >= and or`; `op_span` is where it stands."""

    op: str
    left: Expr
    right: Expr
    op_span: Span


@dataclass(frozen=True, slots=True)
class Unary(Syntax):
    """`op` is `-` or `not`."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Range(Syntax):
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class Member(Syntax):
    value: Expr
    name: Identifier


@dataclass(frozen=True, slots=True)
class Argument(Syntax):
    """One argument of a call; `name` is given for `name = value`."""

    name: Identifier | None
    value: Expr


@dataclass(frozen=True, slots=True)
class Call(Syntax):
    function: Expr
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Index(Syntax):
    value: Expr
    items: tuple[IndexItem, ...]


@dataclass(frozen=True, slots=True)
class Slice(Syntax):
    start: Expr | None
    stop: Expr | None
    step: Expr | None


@dataclass(frozen=True, slots=True)
class Window(Syntax):
    """`start +: length`."""

    start: Expr
    length: Expr


@dataclass(frozen=True, slots=True)
class Rest(Syntax):
    """`..`: all leading axes."""


@dataclass(frozen=True, slots=True)
class NewAxis(Syntax):
    """`new`."""


Expr = (
    Name | Int | Float | String | Bool | Dtype | TupleExpr | ListExpr | IfExpr | Pipe | Binary
    | Unary | Range | Member | Call | Index | Broken
)  # fmt: skip
IndexItem = Expr | Slice | Window | Rest | NewAxis


@dataclass(frozen=True, slots=True)
class TypeExpr(Syntax):
    """`f32[B, .., D]`: `name` is a dtype or an alias, `dims` is empty for a scalar."""

    name: Identifier
    dims: tuple[Expr | Rest, ...]


# Statements


@dataclass(frozen=True, slots=True)
class Block(Syntax):
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Bind(Syntax):
    """`a, b: type = values`. A target that is not a name is an error of the checker."""

    targets: tuple[Expr, ...]
    type: TypeExpr | None
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Write(Syntax):
    """`target := value`."""

    target: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class CallStatement(Syntax):
    call: Expr


@dataclass(frozen=True, slots=True)
class Return(Syntax):
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Minimize(Syntax):
    """`minimize value with optimizer over "a.*", …`."""

    value: Expr
    optimizer: Expr
    selectors: tuple[String, ...]


@dataclass(frozen=True, slots=True)
class For(Syntax):
    """`for item in …` or `for index, item in …`."""

    index: Identifier | None
    item: Identifier
    iterable: Expr
    body: Block


@dataclass(frozen=True, slots=True)
class If(Syntax):
    condition: Expr
    then: Block
    otherwise: Block | If | None


@dataclass(frozen=True, slots=True)
class Assert(Syntax):
    condition: Expr
    text: String | None


Statement = Bind | Write | CallStatement | Return | Minimize | For | If | Assert | Broken


# Members of a layer or model


@dataclass(frozen=True, slots=True)
class Init(Syntax):
    """`~ value` (`drawn`) or `= value`."""

    drawn: bool
    value: Expr


@dataclass(frozen=True, slots=True)
class Param(Syntax):
    frozen: bool
    name: Identifier
    type: TypeExpr
    init: Init | None
    guard: Expr | None


@dataclass(frozen=True, slots=True)
class State(Syntax):
    name: Identifier
    type: TypeExpr
    value: Expr


@dataclass(frozen=True, slots=True)
class ListSize(Syntax):
    """`[count]` or `[variable in count]`."""

    variable: Identifier | None
    count: Expr


@dataclass(frozen=True, slots=True)
class Constructor(Syntax):
    """`module.Layer[sizes](arguments)`; None where the brackets are absent."""

    path: tuple[Identifier, ...]
    sizes: tuple[Expr, ...] | None
    arguments: tuple[Argument, ...] | None


@dataclass(frozen=True, slots=True)
class Submodule(Syntax):
    frozen: bool
    name: Identifier
    list_size: ListSize | None
    constructor: Constructor
    guard: Expr | None


@dataclass(frozen=True, slots=True)
class Setting(Syntax):
    name: Identifier
    value: Expr


@dataclass(frozen=True, slots=True)
class Replace(Syntax):
    selectors: tuple[String, ...]
    constructor: Constructor


@dataclass(frozen=True, slots=True)
class ValueParam(Syntax):
    """`name: kind = default`; `kind` is a type, or one of the words `layer`, `fn`, `dim`."""

    name: Identifier
    kind: TypeExpr | str
    default: Expr | None


@dataclass(frozen=True, slots=True)
class ResultField(Syntax):
    name: Identifier | None
    type: TypeExpr


@dataclass(frozen=True, slots=True)
class ResultTuple(Syntax):
    fields: tuple[ResultField, ...]


@dataclass(frozen=True, slots=True)
class Function(Syntax):
    """A `fn` or an `entry`. `body` is a block, or an expression (`= expr`)."""

    is_entry: bool
    name: Identifier
    sizes: tuple[Identifier, ...]
    values: tuple[ValueParam, ...]
    result: TypeExpr | ResultTuple | None
    body: Block | Expr
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Group(Syntax):
    """`group "glob", … { }` or `group if condition { }`."""

    selectors: tuple[String, ...]
    condition: Expr | None
    settings: tuple[Setting | Broken, ...]


@dataclass(frozen=True, slots=True)
class Optimizer(Syntax):
    name: Identifier
    kind: Identifier
    items: tuple[Setting | Group | Broken, ...]


@dataclass(frozen=True, slots=True)
class DimDecl(Syntax):
    name: Identifier
    value: Expr | None


@dataclass(frozen=True, slots=True)
class Dims(Syntax):
    dims: tuple[DimDecl, ...]


@dataclass(frozen=True, slots=True)
class Const(Syntax):
    name: Identifier
    type: TypeExpr | None
    value: Expr


# Top level


@dataclass(frozen=True, slots=True)
class Edition(Syntax):
    number: int


@dataclass(frozen=True, slots=True)
class ImportNames(Syntax):
    names: tuple[Identifier, ...]
    path: String


@dataclass(frozen=True, slots=True)
class ImportModule(Syntax):
    path: String
    name: Identifier


@dataclass(frozen=True, slots=True)
class DtypeAlias(Syntax):
    name: Identifier
    dtype: Identifier


@dataclass(frozen=True, slots=True)
class Layer(Syntax):
    """A `layer` or a `model`."""

    is_model: bool
    name: Identifier
    sizes: tuple[Identifier, ...]
    values: tuple[ValueParam, ...]
    members: tuple[LayerMember, ...]
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Test(Syntax):
    name: String
    body: Block


LayerMember = (
    Param | State | Submodule | Setting | Dims | Const | Function | Optimizer | Replace | Assert
    | Broken
)  # fmt: skip
Item = (
    Edition | ImportNames | ImportModule | Dims | Const | DtypeAlias | Layer | Function | Test
    | Assert | Broken
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class File(Syntax):
    items: tuple[Item, ...]
    doc: str = ""
