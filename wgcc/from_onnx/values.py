"""Rules work with these: tensors of the graph, constants, members of layers, and statements.

A rule for an ONNX operator turns its operands into statements: trees of the language's own syntax
whose leaves are tensors and members. Names come last, when statements have been put into layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from wgcc.importing.onnx_weights import StoredWeights
from wgcc.lazy_numpy import Array, np
from wgcc.syntax import ast
from wgcc.syntax.print_source import expression_text
from wgcc.syntax.templates import NOWHERE, form, identifier, type_expr
from wgcc.syntax.tree_text import walk

Shape: TypeAlias = tuple[int, ...]
Scope: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """A tensor that is computed at run time.

    `shape` is ONNX's. `order` says which of its axes is stored where: images are kept with their
    channels last, as the language has them, while operators allow it. `name` is a hint; `element`
    is ONNX's number of the element type, where it is wider than `dtype`.
    """

    dtype: str
    shape: Shape
    order: Shape
    name: str
    element: int = 0

    @property
    def stored_shape(self) -> Shape:
        return tuple(self.shape[axis] for axis in self.order)


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Numbers that the file holds or that follow from it.

    `source` names the initialiser that this is a view of, and `axes` the order of its axes in it:
    a matrix that is used twice, once transposed, stays one parameter. `again` computes it at run
    time instead, from weights that can be trained.
    """

    array: Array
    source: str = ""
    axes: Shape | None = None
    again: Callable[[], Operand] | None = None

    @property
    def shape(self) -> Shape:
        return tuple(self.array.shape)

    @property
    def order(self) -> Shape:
        return plain_order(self.shape)

    @property
    def dtype(self) -> str:
        return dtype_of(self.array.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class ModelMember:
    """A parameter, or a standard layer with its own.

    `layer` is what makes a layer, None of a parameter; `arrays` its tensors by their names in the
    layer, "" for the one of a parameter.
    """

    arrays: Mapping[str, Array]
    name: str
    layer: ast.Constructor | None = None
    is_frozen: bool = False
    source: str = ""
    # Some of its numbers were infinite before they were stored as the largest floats.
    is_infinite: bool = False

    @property
    def kind(self) -> str:
        """The name of its layer; "" of a parameter."""
        return self.layer.path[-1].text if self.layer is not None else ""

    @property
    def form(self) -> Hashable:
        """Equal for members that differ by their names and numbers only."""
        return self.is_frozen, form(self.layer) if self.layer else form(self.type)

    @property
    def type(self) -> ast.TypeExpr:
        array = self.arrays[""]
        return type_expr(dtype_of(array.dtype), array.shape)

    def option(self, name: str) -> object:
        """The value of one of its layer's options, as it would be written."""
        for item in (self.layer.arguments or ()) if self.layer else ():
            if item.name is not None and item.name.text == name:
                return expression_text(item.value)
        return None

    def declaration(self, name: str) -> ast.Param | ast.Submodule:
        own = identifier(name)
        if self.layer is not None:
            return ast.Submodule(NOWHERE, False, False, own, None, self.layer, None)
        drawn = ast.Init(NOWHERE, True, ast.Name(NOWHERE, "external"))
        return ast.Param(NOWHERE, self.is_frozen, own, self.type, drawn, None)


Operand: TypeAlias = Computed | Stored


@dataclass(slots=True, eq=False)
class Leaf(ast.Name):
    """A tensor or a member in a tree: a name that is not chosen yet."""

    text: str = field(default="", kw_only=True)
    part: Computed | ModelMember


# What an operand is in a tree: a leaf of it, or a number or list that is written there.
Part: TypeAlias = Computed | ModelMember | ast.Expr


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """`outputs = tree`; the tree's leaves are values and members.

    `targets` is how outputs are unpacked: `y, (h, c)`; one after the other without it.
    """

    outputs: tuple[Computed, ...]
    tree: ast.Expr
    scope: Scope
    node: str
    targets: tuple[ast.Expr, ...] = ()
    body: Round | None = None
    parts: tuple[Computed | ModelMember, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", leaves(self.tree))

    @property
    def alias_of(self) -> Computed | None:
        """The value that this is another view of, with no element moved."""
        part = self.tree.part if isinstance(self.tree, Leaf) else None
        return part if isinstance(part, Computed) else None

    @property
    def function(self) -> str:
        """The name of the function whose result this is; "" without one."""
        head = self.tree.function if isinstance(self.tree, ast.Call) else None
        if isinstance(head, ast.Dtype):
            return head.name
        return head.text if isinstance(head, ast.Name) else ""

    @property
    def layer(self) -> ModelMember | None:
        """The layer that it calls with one tensor."""
        head = self.tree.function if isinstance(self.tree, ast.Call) else None
        return head.part if isinstance(head, Leaf) and isinstance(head.part, ModelMember) else None

    @property
    def reshapes(self) -> Computed | None:
        """The tensor that it gives another shape."""
        return self.operand if self.function == "reshape" else None

    @property
    def operand(self) -> Computed | None:
        """The first argument of a call, if it is a tensor."""
        given = self.tree.arguments if isinstance(self.tree, ast.Call) else ()
        first: object = given[0].value if given else None
        part = first.part if isinstance(first, Leaf) else None
        return part if isinstance(part, Computed) else None


def leaves(tree: ast.Syntax) -> tuple[Computed | ModelMember, ...]:
    return tuple(node.part for node in walk(tree) if isinstance(node, Leaf))


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """A round of a loop. Its statement is a `scan`.

    The arguments of that statement are what states start as, then what the loop runs over, then the
    options of `scan`; its outputs the last states and stacked results. A round gets `states` and
    `items`, and gives `after` and `results`.
    """

    statements: tuple[Statement, ...]
    states: tuple[Computed, ...]
    items: tuple[Computed, ...]
    after: tuple[Computed, ...]
    results: tuple[Computed, ...]

    @property
    def round_inputs(self) -> tuple[Computed, ...]:
        return (*self.states, *self.items)

    @property
    def round_outputs(self) -> tuple[Computed, ...]:
        return (*self.after, *self.results)


def flat(statements: Iterable[Statement]) -> Iterator[Statement]:
    """All statements, also those in bodies of loops."""
    for statement in statements:
        yield statement
        if statement.body is not None:
            yield from flat(statement.body.statements)


def values_read(statement: Statement) -> Iterator[Computed]:
    """The values that it reads, also those that the rounds of a loop read from outside."""
    own: set[Computed] = set()
    for item in flat([statement]):
        own.update(item.body.round_inputs if item.body else ())
        own.update(() if item is statement else item.outputs)
    for item in flat([statement]):
        yield from (part for part in item.parts if isinstance(part, Computed) and part not in own)


@dataclass(slots=True)
class Traced:
    """A graph as statements. `notes` are said to the user.

    `layers` are layers that the standard ones do not have, by name.
    """

    inputs: dict[str, Computed] = field(default_factory=dict)
    outputs: dict[str, Computed | Stored] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # What is said of several nodes or tensors, with their names.
    remarks: dict[str, dict[str, None]] = field(default_factory=dict)
    # Floats of fewer bits that the file computes with.
    narrow: set[str] = field(default_factory=set)
    layers: dict[str, ast.Layer] = field(default_factory=dict)
    # Inputs that may hold NaN and infinity.
    any_floats: set[str] = field(default_factory=set)
    # Random numbers by their names in the file; those of inner graphs have none.
    noise: dict[str, Computed] = field(default_factory=dict)
    hidden_noise: bool = False

    def remark(self, text: str, name: str) -> None:
        self.remarks.setdefault(text, {})[name] = None

    def all_notes(self) -> list[str]:
        return [
            *self.notes,
            *(f"{text}: {_name_list(names)}" for text, names in self.remarks.items()),
        ]


@dataclass(frozen=True, slots=True)
class OnnxType:
    """`element` is ONNX's number of the element type."""

    dtype: str
    shape: Shape
    element: int = 0


@dataclass(slots=True)
class Writer:
    """Collects the statements and members of a graph."""

    traced: Traced
    # Initialisers that several nodes read: they stay parameters of their own.
    shared: set[str] = field(default_factory=set)
    # By initialiser: its parameter, and the order of the initialiser's axes in it.
    members: dict[str, tuple[ModelMember, Shape | None]] = field(default_factory=dict)
    orders: dict[tuple[Computed, Shape], Computed] = field(default_factory=dict)
    # What computes a value, and which values only one node reads.
    made_by: dict[Computed, Statement] = field(default_factory=dict)
    used_once: set[Computed] = field(default_factory=set)
    keeps_batch_norm: bool = False
    stored: StoredWeights = field(default_factory=StoredWeights)

    def is_weight(self, constant: Stored) -> bool:
        """Whether it is a stored weight, or a part of one."""
        is_stored = bool(constant.source) and constant.source not in self.stored.fixed
        return constant.dtype == "f32" and (is_stored or constant.again is not None)

    def is_number(self, constant: Stored) -> bool:
        """Whether it is written as a number. Many files store such numbers beside the weights."""
        if constant.shape == ():
            return constant.source not in self.stored.scalars
        return constant.array.size == 1 and not self.is_weight(constant)


# More names than these are counted.
MOST_NAMES = 12


def _name_list(names: Iterable[str]) -> str:
    all_names = list(names)
    more = f" and {len(all_names) - MOST_NAMES} more" if len(all_names) > MOST_NAMES else ""
    return ", ".join(all_names[:MOST_NAMES]) + more


_NARROWED = {
    "float64": "f32", "float32": "f32", "float16": "f32", "bfloat16": "f32",
    "int64": "i32", "int32": "i32", "int16": "i32", "uint16": "i32", "int8": "i8",
    "uint8": "u8", "uint32": "u32", "uint64": "u32", "bool": "bool",
}  # fmt: skip


def dtype_of(dtype: object) -> str:
    """The element type of the language; "" where it has none."""
    return _NARROWED.get(str(np.dtype(dtype)), "")  # type: ignore[call-overload]


def plain_order(shape: Shape) -> Shape:
    return tuple(range(len(shape)))


def channels_last_order(rank: int) -> Shape:
    return (0, *range(2, rank), 1)


AXIS_NAMES = "abcdefghijklmnop"


def kept_order(value: Computed, shape: Shape) -> Shape | None:
    """How axes of a new shape are stored if no element moves; None if some must.

    Axes that are joined must be stored one after the other; parts of a split axis are.
    """
    if math.prod(value.shape) != math.prod(shape):
        return None
    groups = axis_groups(value.shape, shape)
    places = {axis: number for number, (before, _) in enumerate(groups) for axis in before}
    stored = [axis for axis in value.order if axis in places]
    kept: list[int] = []
    for before, _ in groups:
        first = stored.index(before[0])
        if tuple(stored[first : first + len(before)]) != before:
            return None
    for number in dict.fromkeys(places[axis] for axis in stored):
        kept += groups[number][1]
    ones = [axis for axis in range(len(shape)) if axis not in kept]
    for axis in ones:
        kept.insert(axis, axis)
    return tuple(kept)


def axis_groups(before: Shape, after: Shape) -> list[tuple[Shape, Shape]]:
    """The shortest runs of axes longer than 1 that hold the same elements in both shapes."""
    left, right = ([a for a, size in enumerate(s) if size > 1] for s in (before, after))
    groups: list[tuple[Shape, Shape]] = []
    while left and right:
        a, b = [left.pop(0)], [right.pop(0)]
        sizes = before[a[0]], after[b[0]]
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                a.append(left.pop(0))
            else:
                b.append(right.pop(0))
            sizes = math.prod(before[x] for x in a), math.prod(after[x] for x in b)
        groups.append((tuple(a), tuple(b)))
    return groups


def has_free_order(value: Computed) -> bool:
    """Whether axes longer than 1 are stored in ONNX's order, so that moving changes nothing."""
    long = [axis for axis in value.order if value.shape[axis] > 1]
    return long == sorted(long)


def axes_pattern(before: Shape, after: Shape) -> str:
    """For `rearrange`: axes by letters, in the one order and in the other."""
    names = ["n", "c", "h", "w"] if len(before) == 4 else list(AXIS_NAMES)
    left, right = (" ".join(names[axis] for axis in order) for order in (before, after))
    return f"{left} -> {right}"
