"""Values that an expression of a `.wg` program can have while it is traced.

Tensors are values of the graph under construction; everything else exists at compile time only.
A whole number is a `Dim`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wgcc.elaborate.tracing.dims import Dim, shape_text
from wgcc.errors import Source, Span
from wgcc.ir.graph import Value
from wgcc.ir.program import Init
from wgcc.syntax import ast

if TYPE_CHECKING:
    from wgcc.elaborate.tracing.arguments import BuiltinFunction, Given
    from wgcc.elaborate.tracing.tracer import Tracer


@dataclass(frozen=True, eq=False)
class Tensor:
    """A run-time value: `dims[i].size == value.shape[i]`. A scalar has no dims.

    `str(tensor)` is `f32[B, D]`.
    """

    value: Value
    dims: tuple[Dim, ...] = ()

    @property
    def dtype(self) -> str:
        return self.value.dtype

    @property
    def rank(self) -> int:
        return len(self.dims)

    def __str__(self) -> str:
        return type_text(self.dtype, self.dims)


@dataclass(frozen=True)
class Number:
    """A compile-time number with a fraction; it takes the dtype of the tensor it is used with."""

    value: float


@dataclass(frozen=True)
class BoolValue:
    value: bool


@dataclass(frozen=True, eq=False)
class Text:
    """A string; `span` includes the quotes: character i of `value` is at `span.start + 1 + i`."""

    value: str
    span: Span


@dataclass(frozen=True, eq=False)
class TupleValue:
    items: tuple[AnyValue, ...] = ()


@dataclass(frozen=True, eq=False)
class ListValue:
    items: tuple[AnyValue, ...] = ()


@dataclass(frozen=True, eq=False)
class RangeValue:
    """The whole numbers of `low..high`, with or without a step, in order of iteration."""

    numbers: range

    @property
    def count(self) -> int:
        """How many there are; Python's `len` of a range fails beyond 2**63."""
        numbers = self.numbers
        return (numbers[-1] - numbers[0]) // numbers.step + 1 if numbers else 0


@dataclass(frozen=True)
class DtypeValue:
    name: str


@dataclass(frozen=True, eq=False)
class TypeValue:
    """`f32[2, D]` used as a value, as in `zeros(f32[2, D])`."""

    dtype: str
    dims: tuple[Dim, ...]


@dataclass(frozen=True, eq=False)
class ParamRef:
    """A parameter; `Tracer.read` gives its current tensor. Errors are reported at `user_span`."""

    path: str
    dtype: str
    dims: tuple[Dim, ...]
    frozen: bool
    init: Init
    span: Span
    user_span: Span


@dataclass(frozen=True, eq=False)
class StateRef:
    """A state; `Tracer.read` gives its current tensor."""

    path: str
    dtype: str
    dims: tuple[Dim, ...]
    init: Init
    span: Span
    user_span: Span


@dataclass(eq=False)
class LoadedFile:
    """A file: `places` has the names it defines or imports, `scope` their values."""

    source: Source
    path: Path
    tree: ast.File
    scope: Scope
    places: dict[str, Span] = field(default_factory=dict)
    layers: list[LayerDefinition] = field(default_factory=list)
    models: list[LayerDefinition] = field(default_factory=list)
    functions: list[FunctionValue] = field(default_factory=list)
    tests: list[ast.Test] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class LayerDefinition:
    """A `layer` or `model` as written, with its file."""

    name: str
    node: ast.Layer
    file: LoadedFile


@dataclass(frozen=True, eq=False)
class LayerType:
    """A layer that has not been created: `Linear`, `Linear[D, F]`, `Linear[D, F](bias = false)`."""

    definition: LayerDefinition
    sizes: tuple[Dim, ...] | None = None
    arguments: Mapping[str, Given] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class LayerValue:
    """An instance of a layer: `scope` holds its sizes, options and members.

    What a `remat` layer computes is recomputed for gradients instead of stored.
    """

    definition: LayerDefinition
    path: str
    scope: Scope
    span: Span
    remat: bool = False


@dataclass(frozen=True, eq=False)
class LayerContents:
    """Tensors for all parameters and state of a layer, by their names in it: `lerp(a, b, w)`."""

    tensors: Mapping[str, Tensor]


# The file of the library with built-in functions.
BUILT_IN = "std/functions.wg"


@dataclass(frozen=True, eq=False)
class FunctionValue:
    """A function with the names that it sees: those of its file, its layer, or (`is_inner`) of
    the function that it is defined in."""

    name: str
    node: ast.Function
    scope: Scope
    file: LoadedFile
    owner: LayerValue | None = None
    is_inner: bool = False

    @property
    def is_built_in(self) -> bool:
        return self.file.source.name == BUILT_IN


@dataclass(frozen=True, eq=False)
class Builtin:
    name: str
    function: BuiltinFunction


@dataclass(frozen=True, eq=False)
class ModuleValue:
    """`import "x.wg" as x`."""

    file: LoadedFile


@dataclass(eq=False)
class OptimizerValue:
    """An optimizer; `usable` once it has been checked without an error.

    `groups` are (paths of parameters, settings), in order: later ones override. `results` holds
    `grad_norm` and `lr` of the entry being traced, after its `minimize`.
    """

    name: str
    node: ast.Optimizer
    scope: Scope
    usable: bool = False
    groups: list[tuple[frozenset[str], dict[str, float]]] = field(default_factory=list)
    results: dict[str, AnyValue] = field(default_factory=dict)


class TrainingFlag:
    """The name `training`: true inside an entry that trains."""


class Failed:
    """The value of an expression whose error was reported: its uses report no further error."""

    def __repr__(self) -> str:
        return "FAILED"


FAILED = Failed()

AnyValue = (
    Tensor | Number | Dim | BoolValue | Text | TupleValue | ListValue | RangeValue | DtypeValue
    | TypeValue | ParamRef | StateRef | LayerType | LayerValue | LayerContents | FunctionValue
    | Builtin | ModuleValue | OptimizerValue | TrainingFlag | Failed
)  # fmt: skip


def type_text(dtype: str, dims: tuple[Dim, ...]) -> str:
    return f"{dtype}[{shape_text(dims)}]" if dims else dtype


def describe(value: Any) -> str:
    """`a tensor f32[B, D]`, `a scalar i32`, `the number D = 64`, …: how messages name a value."""
    if isinstance(value, (Tensor, ParamRef, StateRef)):
        kind = "a tensor" if value.dims else "a scalar"
        return f"{kind} {type_text(value.dtype, value.dims)}"
    if isinstance(value, Dim):
        return f"the number {value.full}"
    if isinstance(value, Number):
        return f"the number {value.value:g}"
    if isinstance(value, LayerValue):
        return f"a {value.definition.name} layer"
    if isinstance(value, LayerType):
        return f"the layer type {value.definition.name}"
    if isinstance(value, (FunctionValue, Builtin)):
        return f"the function {value.name}"
    return _KINDS.get(type(value), "a value")


_KINDS: dict[type, str] = {
    BoolValue: "a bool",
    TrainingFlag: "a bool",
    Text: "a string",
    TupleValue: "a tuple",
    ListValue: "a list",
    RangeValue: "a range",
    DtypeValue: "a type",
    TypeValue: "a type",
    ModuleValue: "a file",
    OptimizerValue: "an optimizer",
    LayerContents: "the contents of a layer",
}


def holds_layers(value: AnyValue | None) -> bool:
    """Whether it is a layer, or a list of layers."""
    if isinstance(value, ListValue):
        return bool(value.items) and all(holds_layers(item) for item in value.items)
    return isinstance(value, LayerValue)


def stored_in(value: AnyValue) -> dict[str, ParamRef | StateRef]:
    """All parameters and state of a layer or list of layers, by their names inside it."""
    return dict(_walk_stored(value, ""))


def _walk_stored(value: AnyValue, path: str) -> Iterator[tuple[str, ParamRef | StateRef]]:
    if isinstance(value, (ParamRef, StateRef)):
        yield path, value
    elif isinstance(value, LayerValue):
        for name, member in value.scope.names.items():
            # The layer that this one replaced has the same path, and so have its members.
            kept = isinstance(member, LayerValue) and member.path == value.path
            yield from _walk_stored(member, path if kept else f"{path}.{name}" if path else name)
    elif isinstance(value, ListValue):
        for position, item in enumerate(value.items):
            yield from _walk_stored(item, f"{path}.{position}" if path else str(position))


def layer_tensors(tracer: Tracer, value: AnyValue) -> Mapping[str, Tensor]:
    """The current tensors of a layer, or those that are to be stored in one."""
    if isinstance(value, LayerContents):
        return value.tensors
    return {name: tracer.trace.read(ref) for name, ref in stored_in(value).items()}


def difference(a: Mapping[str, ParamRef | StateRef], b: Mapping[str, Tensor]) -> str:
    """The difference of two layers: empty if they have the same names and types."""
    for name in (*a, *b):
        if name not in a or name not in b:
            return f"`{name}` is only in the {'first' if name in a else 'second'}"
        if a[name].dtype != b[name].dtype or _sizes(a[name]) != _sizes(b[name]):
            return f"`{name}` is {_type(a[name])} in the first and {_type(b[name])} in the second"
    return ""


def _sizes(value: ParamRef | StateRef | Tensor) -> list[int]:
    return [dim.size for dim in value.dims]


def _type(value: ParamRef | StateRef | Tensor) -> str:
    return f"{value.dtype}{_sizes(value) if value.dims else ''}"


class Scope:
    """Names with their values; names not found here are looked up in `parent`.

    `pending` are names that a later line defines.
    """

    def __init__(
        self, parent: Scope | None = None, names: Mapping[str, AnyValue] | None = None
    ) -> None:
        self.parent = parent
        self.pending: set[str] = set()
        self.names: dict[str, AnyValue] = dict(names or {})

    def find(self, name: str) -> AnyValue | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def bind(self, name: str, value: AnyValue) -> None:
        self.names[name] = value
        self.pending.discard(name)

    def awaits(self, name: str) -> bool:
        scope: Scope | None = self
        while scope is not None and name not in scope.pending:
            scope = scope.parent
        return scope is not None

    def is_bound(self, name: str) -> bool:
        """Has the name a value, or will it have one?"""
        return self.find(name) is not None or self.awaits(name)

    def visible(self) -> Iterator[str]:
        """Every name that `find` would find, nearest first."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            scope = scope.parent
