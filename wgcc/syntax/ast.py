"""The syntax tree of a `.wg` file: what was written, with its place. It knows no shapes and no ops.

`Broken` replaces a statement, member or item that did not parse: the error has been reported, and
`names` are the names it might have bound, so that later phases report nothing about them.

Nodes are compared by identity and never changed. (They are not `frozen`, because creating so many
frozen classes would take a third of the time that the command line takes to start.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from wgcc.syntax.ast_expressions import Argument as Argument
from wgcc.syntax.ast_expressions import Binary as Binary
from wgcc.syntax.ast_expressions import Bool as Bool
from wgcc.syntax.ast_expressions import Broken as Broken
from wgcc.syntax.ast_expressions import Call as Call
from wgcc.syntax.ast_expressions import Dtype as Dtype
from wgcc.syntax.ast_expressions import Expr as Expr
from wgcc.syntax.ast_expressions import Float as Float
from wgcc.syntax.ast_expressions import Identifier as Identifier
from wgcc.syntax.ast_expressions import IfExpr as IfExpr
from wgcc.syntax.ast_expressions import Index as Index
from wgcc.syntax.ast_expressions import IndexItem as IndexItem
from wgcc.syntax.ast_expressions import Int as Int
from wgcc.syntax.ast_expressions import ListExpr as ListExpr
from wgcc.syntax.ast_expressions import Member as Member
from wgcc.syntax.ast_expressions import Name as Name
from wgcc.syntax.ast_expressions import NewAxis as NewAxis
from wgcc.syntax.ast_expressions import Pipe as Pipe
from wgcc.syntax.ast_expressions import Range as Range
from wgcc.syntax.ast_expressions import Rest as Rest
from wgcc.syntax.ast_expressions import Slice as Slice
from wgcc.syntax.ast_expressions import String as String
from wgcc.syntax.ast_expressions import Syntax as Syntax
from wgcc.syntax.ast_expressions import TupleExpr as TupleExpr
from wgcc.syntax.ast_expressions import TypeExpr as TypeExpr
from wgcc.syntax.ast_expressions import Unary as Unary
from wgcc.syntax.ast_expressions import Window as Window

# Statements


@dataclass(slots=True, eq=False)
class Block(Syntax):
    statements: tuple[Statement, ...]


@dataclass(slots=True, eq=False)
class Bind(Syntax):
    """`a, b: type = values`. A target that is not a name is an error of the checker."""

    targets: tuple[Expr, ...]
    type: TypeExpr | None
    values: tuple[Expr, ...]


@dataclass(slots=True, eq=False)
class Write(Syntax):
    """`target := value`."""

    target: Expr
    value: Expr


@dataclass(slots=True, eq=False)
class CallStatement(Syntax):
    call: Expr


@dataclass(slots=True, eq=False)
class Return(Syntax):
    values: tuple[Expr, ...]


@dataclass(slots=True, eq=False)
class Minimize(Syntax):
    """`minimize value with optimizer over "a.*", …`."""

    value: Expr
    optimizer: Expr
    selectors: tuple[String, ...]


@dataclass(slots=True, eq=False)
class For(Syntax):
    """`for item in …` or `for index, item in …`."""

    index: Identifier | None
    item: Identifier
    iterable: Expr
    body: Block


@dataclass(slots=True, eq=False)
class If(Syntax):
    condition: Expr
    then: Block
    otherwise: Block | If | None


@dataclass(slots=True, eq=False)
class Assert(Syntax):
    condition: Expr
    text: String | None


Statement = Union[
    Bind, Write, CallStatement, Return, Minimize, For, If, Assert, Broken, "Function"
]  # fmt: skip


# Members of a layer or model


@dataclass(slots=True, eq=False)
class Init(Syntax):
    """`~ value` (`drawn`) or `= value`."""

    drawn: bool
    value: Expr


@dataclass(slots=True, eq=False)
class Param(Syntax):
    frozen: bool
    name: Identifier
    type: TypeExpr
    init: Init | None
    guard: Expr | None


@dataclass(slots=True, eq=False)
class State(Syntax):
    name: Identifier
    type: TypeExpr
    value: Expr
    guard: Expr | None


@dataclass(slots=True, eq=False)
class ListSize(Syntax):
    """`[count]` or `[variable in count]`."""

    variable: Identifier | None
    count: Expr


@dataclass(slots=True, eq=False)
class Constructor(Syntax):
    """`module.Layer[sizes](arguments)`; None where the brackets are absent."""

    path: tuple[Identifier, ...]
    sizes: tuple[Expr, ...] | None
    arguments: tuple[Argument, ...] | None


@dataclass(slots=True, eq=False)
class Submodule(Syntax):
    frozen: bool
    remat: bool
    name: Identifier
    list_size: ListSize | None
    constructor: Constructor
    guard: Expr | None


@dataclass(slots=True, eq=False)
class Setting(Syntax):
    name: Identifier
    value: Expr


@dataclass(slots=True, eq=False)
class Replace(Syntax):
    selectors: tuple[String, ...]
    constructor: Constructor


@dataclass(slots=True, eq=False)
class TupleField(Syntax):
    name: Identifier | None
    type: TypeExpr | TupleType


@dataclass(slots=True, eq=False)
class TupleType(Syntax):
    """`(f32[N], (f32, f32))`, `(loss: f32)`: of arguments and results."""

    fields: tuple[TupleField, ...]


@dataclass(slots=True, eq=False)
class OneOf(Syntax):
    """`"mean" or "sum"`: of an option that is one of these words."""

    options: tuple[String, ...]


Kind = TypeExpr | TupleType | OneOf | str


@dataclass(slots=True, eq=False)
class ValueParam(Syntax):
    """`name: kind = default`; `kind` is a type, a choice, or a word: `layer`, `fn`, `dim`."""

    name: Identifier
    kind: Kind
    default: Expr | None


@dataclass(slots=True, eq=False)
class Gradient(Syntax):
    """`grad g { … }` after a function: the gradients of its arguments from those of its results."""

    names: tuple[Identifier, ...]
    body: Block


@dataclass(slots=True, eq=False)
class Function(Syntax):
    """A `fn` or an `entry`. `body` is a block, or an expression (`= expr`).

    `averages` is what an entry has after `with`.
    """

    is_entry: bool
    name: Identifier
    sizes: tuple[Identifier, ...]
    values: tuple[ValueParam, ...]
    result: TypeExpr | TupleType | None
    body: Block | Expr
    doc: str = ""
    gradient: Gradient | None = None
    averages: tuple[Identifier, ...] = ()


@dataclass(slots=True, eq=False)
class Group(Syntax):
    """`group "glob", … { }` or `group if condition { }`."""

    selectors: tuple[String, ...]
    condition: Expr | None
    settings: tuple[Setting | Broken, ...]


@dataclass(slots=True, eq=False)
class Optimizer(Syntax):
    name: Identifier
    kind: Identifier
    items: tuple[Setting | Group | Broken, ...]


@dataclass(slots=True, eq=False)
class DimDecl(Syntax):
    name: Identifier
    value: Expr | None


@dataclass(slots=True, eq=False)
class Dims(Syntax):
    dims: tuple[DimDecl, ...]


@dataclass(slots=True, eq=False)
class Const(Syntax):
    name: Identifier
    type: TypeExpr | None
    value: Expr


# Top level


@dataclass(slots=True, eq=False)
class Edition(Syntax):
    number: int


@dataclass(slots=True, eq=False)
class ImportNames(Syntax):
    names: tuple[Identifier, ...]
    path: String


@dataclass(slots=True, eq=False)
class ImportModule(Syntax):
    path: String
    name: Identifier


@dataclass(slots=True, eq=False)
class DtypeAlias(Syntax):
    name: Identifier
    dtype: Identifier


@dataclass(slots=True, eq=False)
class Layer(Syntax):
    """A `layer` or a `model`."""

    is_model: bool
    name: Identifier
    sizes: tuple[Identifier, ...]
    values: tuple[ValueParam, ...]
    members: tuple[LayerMember, ...]
    doc: str = ""


@dataclass(slots=True, eq=False)
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


@dataclass(slots=True, eq=False)
class File(Syntax):
    items: tuple[Item, ...]
    doc: str = ""
