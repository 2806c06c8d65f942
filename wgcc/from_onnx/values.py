"""What rules work with: tensors of the graph, constants, members of layers, and statements.

A rule for an ONNX operator turns its operands into statements of the language. Names come last,
when statements have been put into layers: a statement holds a template with places for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from wgcc.lazy_numpy import Array, np

Shape: TypeAlias = tuple[int, ...]
Scope: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Value:
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
class Constant:
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
    def dtype(self) -> str:
        return dtype_of(self.array.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A parameter, or a standard layer with its own.

    `kind` is its declaration with `{name}` in it; `arrays` its tensors by their names in the layer,
    "" for the one of a parameter.
    """

    kind: str
    arrays: Mapping[str, Array]
    name: str
    source: str = ""
    # Some of its numbers were infinite before they were stored as the largest floats.
    is_infinite: bool = False


Operand: TypeAlias = Value | Constant
# What a template is filled with: names of the first two, the text itself of the last.
Part: TypeAlias = Value | Member | str


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """`outputs = text`, where `{0}`, `{1}` … of the text are the names of `parts`."""

    outputs: tuple[Value, ...]
    text: str
    parts: tuple[Part, ...]
    scope: Scope
    node: str
    # How outputs are unpacked: `{0}, ({1}, {2})`; one after the other without it.
    targets: str = ""
    body: Body | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A round of a loop. Its statement is a `scan`.

    The parts of that statement are what states start as, and what the loop runs over; its outputs
    the last states and stacked results, its text the options of `scan`. A round gets `states` and
    `items`, and gives `after` and `results`.
    """

    statements: tuple[Statement, ...]
    states: tuple[Value, ...]
    items: tuple[Value, ...]
    after: tuple[Value, ...]
    results: tuple[Value, ...]

    @property
    def given(self) -> tuple[Value, ...]:
        return (*self.states, *self.items)

    @property
    def returned(self) -> tuple[Value, ...]:
        return (*self.after, *self.results)


def flat(statements: Iterable[Statement]) -> Iterator[Statement]:
    """With those in bodies of loops."""
    for statement in statements:
        yield statement
        if statement.body is not None:
            yield from flat(statement.body.statements)


def values_read(statement: Statement) -> Iterator[Value]:
    """With what the rounds of a loop read from outside."""
    own: set[Value] = set()
    for item in flat([statement]):
        own.update(item.body.given if item.body else ())
        own.update(() if item is statement else item.outputs)
    for item in flat([statement]):
        yield from (part for part in item.parts if isinstance(part, Value) and part not in own)


@dataclass(slots=True)
class Traced:
    """A graph as statements. `notes` are said to the user.

    `layers` are texts of layers that the standard ones do not have, by name.
    """

    inputs: dict[str, Value] = field(default_factory=dict)
    outputs: dict[str, Value | Constant] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # What is said of several nodes or tensors, with their names.
    remarks: dict[str, dict[str, None]] = field(default_factory=dict)
    # Floats of fewer bits that the file computes with.
    narrow: set[str] = field(default_factory=set)
    layers: dict[str, str] = field(default_factory=dict)
    # Inputs that may hold NaN and infinity.
    any_floats: set[str] = field(default_factory=set)
    # Random numbers by their names in the file; those of inner graphs have none.
    noise: dict[str, Value] = field(default_factory=dict)
    hidden_noise: bool = False

    def remark(self, text: str, name: str) -> None:
        self.remarks.setdefault(text, {})[name] = None

    def all_notes(self) -> list[str]:
        return [*self.notes, *(f"{text}: {_listed(names)}" for text, names in self.remarks.items())]


# More names than these are counted.
MOST_NAMES = 12


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - MOST_NAMES} more" if len(found) > MOST_NAMES else ""
    return ", ".join(found[:MOST_NAMES]) + more


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
