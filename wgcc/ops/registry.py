"""Defines what an op is: one `Op` each, with all of its rules in one file of this folder.

An op has its meaning (`infer`, `reference`), its gradient (`grad`) and its lowering (`lower`, one
of the kinds below). The scheduler knows these kinds, and hardly any single op.

Shape rules share conditions, each with its error message; how element types and numbers are written
in numpy and in WGSL, and the text of WGSL's helper functions, are here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from wgcc.ir.dtypes import DTYPE_TABLE, FLOATS, INTEGER_RANGES, INTEGERS, LARGEST_FLOAT, NUMBERS
from wgcc.ir.graph import Attrs, Builder, Node, TensorType, Value
from wgcc.kernel.tree import FunctionDef
from wgcc.lazy_numpy import Array, np

GradRule = Callable[[Builder, Node, Sequence[Value | None]], Sequence[Value | None]]
NumberRule = Callable[[float], float]
# Builds the outputs of a node from other ops.
Ordinary = Callable[[Builder, Node], Sequence[Value]]
# The overhead of a numpy call, in elements.
NUMPY_CALL = 1000


# A file of WGSL helper functions by its name, or a function that a user has written.
Helper = str | FunctionDef
# The helpers, or a rule that gives those of a node.
Functions = tuple[Helper, ...] | Callable[[Node], tuple[Helper, ...]]
# For one axis its number in every input, and in every output; None: the tensor does not have it.
SharedAxis = tuple[tuple[int | None, ...], tuple[int | None, ...]]


class ShapeError(Exception):
    """Raised by a shape rule; the caller adds the place in the source."""


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Element i of the output is an expression of element i of each input (all of one shape).

    `wgsl` is that expression with operands `{0}`, `{1}` … and attributes by name; `functions` names
    the WGSL helper functions it calls (files `wgcc/ops/wgsl/NAME.wgsl`). Both may depend on the
    node. `cheap` marks what may be recomputed instead of stored. `part` names an op of one operand
    that the expression uses, by that name, of its own operand: a kernel that computes both computes
    it once.
    """

    wgsl: str | Callable[[Node], str]
    functions: Functions = ()
    cheap: bool = True
    part: str = ""


@dataclass(frozen=True, slots=True)
class FromIndex:
    """Element i of the output depends only on the index, scalar operands and attributes.

    `{i}` is the flat index (u32), operands are scalars. Where it is not `cheap`, a node without
    operands becomes a constant of the bundle.
    """

    wgsl: str | Callable[[Node], str]
    functions: Functions = ()
    cheap: Callable[[Node], bool] = lambda node: True


@dataclass(frozen=True, slots=True)
class View:
    """Element at `index` of the output is an element of the input at another index.

    `index(node, index)` maps output coordinates to input coordinates. Coordinates are opaque
    integer expressions supporting `+ - * // %` with integers. `inside(node, index)` lists the
    conditions `(low, coordinate, high)`, meaning low <= coordinate < high, under which the element
    exists; outside it is zero (and the result of `index` may be out of bounds, even negative).
    `rearranges_axes`: axes are split, merged or exchanged, so that every element of the input is
    one of the output. `in_order`: in the same order, too, if both are read row by row.
    """

    index: Callable[[Node, tuple[Any, ...]], tuple[Any, ...]]
    inside: Callable[[Node, tuple[Any, ...]], Sequence[tuple[int, Any, int]]] | None = None
    rearranges_axes: bool = False
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class Indirect:
    """Element at `index` of the output is one of input 0, at an index read from input 1 (integers).

    Input 1 is read at `at(node, index)`; its element is clamped to `0 … limit(node)` and given as
    `stored_index` to `index(node, index, stored_index)`, which gives the index into input 0.
    """

    at: Callable[[Node, tuple[Any, ...]], tuple[Any, ...]]
    limit: Callable[[Node], int]
    index: Callable[[Node, tuple[Any, ...], Any], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Join:
    """The inputs concatenated along attribute `axis`."""


@dataclass(frozen=True, slots=True)
class Reduce:
    """Combines elements along attribute `axes` (sorted tuple; those axes disappear from the shape).

    `start` and `combine` (WGSL with `{0}` the accumulator, `{1}` the element) form an associative
    pair; `functions` are the WGSL helper functions that they call. All depend on the dtype.
    """

    start: Callable[[str], str]
    combine: Callable[[str], str]
    functions: Callable[[str], tuple[str, ...]] = lambda dtype: ()


@dataclass(frozen=True, slots=True)
class Expand:
    """A composition: `rule` builds the same value from simpler ops (after autograd)."""

    rule: Callable[[Builder, Node], Sequence[Value]]


@dataclass(frozen=True, slots=True)
class Special:
    """A separate kernel family; `family` names its module in `wgcc/schedule/kernels/`.

    `inlines` says whether operands may be computed while they are read; a family that needs nearly
    all bindings has one per operand and no more. `narrow` results may be stored as f16 in a model
    of that precision: they are computed in f32 and used as f32. `shares`: one kernel may make the
    results of several nodes that do not need each other and whose types and attributes are equal.
    """

    family: str
    inlines: bool = True
    narrow: bool = False
    shares: bool = False


@dataclass(frozen=True, slots=True)
class UpdateForm:
    """The inputs and outputs of an update's node, and the update of one element.

    The node's inputs are the `lists` in order, each `n` tensors (attribute `n`; the k-th tensors of
    all lists have one shape, f32), then the `scalars` (f32). Its outputs are the lists named in
    `writes`, in order, n tensors each: the new values of those same tensors. `wgsl` is a sequence
    of statements over one element: every list's name is a `var` with its element, every scalar's
    name a `let`; the final values of the names in `writes` are stored.
    """

    lists: tuple[str, ...]
    scalars: tuple[str, ...]
    writes: tuple[str, ...]
    wgsl: str


@dataclass(frozen=True, slots=True)
class Update:
    """Many tensors updated element by element: one kernel over flat arenas; see `UpdateForm`.

    Scalars are ordinary values; a `const` is best written into the kernel as a number.
    """

    form: Callable[[Attrs], UpdateForm]


@dataclass(frozen=True, slots=True)
class ReduceMany:
    """All elements of all inputs (f32) combined into one scalar.

    `flat(b, x)` builds it for one long vector x; `combine` is the op that joins two such results.
    """

    flat: Callable[[Builder, Value], Value]
    combine: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """A loop: the graph in attribute `body` once for each of `rounds`; see `wgcc/ir/loops.py`."""


@dataclass(frozen=True, slots=True)
class Marker:
    """Exists only before `until` (a pass that replaces it); never reaches the scheduler."""

    until: str


Lowering = (
    Pointwise
    | FromIndex
    | View
    | Indirect
    | Join
    | Reduce
    | Expand
    | Special
    | Update
    | ReduceMany
    | Repeat
    | Marker
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One example application, used by the tests of every rule.

    `inputs` are shapes (f32) or types; `low`/`high` bound the values drawn for float inputs and
    `integers` those for integer inputs (both included), `attrs` are the node's attributes.
    """

    inputs: Sequence[tuple[int, ...] | TensorType]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    low: float = -2.0
    high: float = 2.0
    integers: tuple[int, int] = (0, 3)
    differentiable: bool = True


@dataclass(frozen=True, slots=True)
class Op:
    """All rules of one op.

    `infer(*types, **attrs)` gives the output type (or a tuple of them). `reference(*arrays,
    **attrs)` gives the arrays, in the precision of its inputs. `grad(b, node, gs)` gets one
    gradient per output (None where nothing depends on it) and returns one per input (None where
    there is none). The last `saved` outputs are for that gradient alone: nothing else may use
    them, and no gradient flows through them.

    - `number(x)`: of one operand, its value for a number known at compile time, in double
      precision; the language has a function of the op's name for each op that has this rule
    - `effort(node)`: how many elements `reference` uses in addition to its results, if many
    - `stops_gradient`: no gradient passes through, because its result is constant almost
      everywhere, or is treated as a constant
    - `never_stored`: elements are computed where they are read, so no buffer limits its size
    - `commutative`: the two operands may be swapped
    - `identity`: the output equals the first operand
    - `ordinary(b, node)`: of an op without `grad`, the same values from ops that have one; autograd
      differentiates those
    - `separate(node)`: of a kernel family, the axes along which each index is computed alone, from
      the same index of the inputs that have the axis, and in the same way for every index
    """

    name: str
    infer: Callable[..., TensorType | tuple[TensorType, ...]]
    reference: Callable[..., Any]
    lower: Lowering
    grad: GradRule | None = None
    samples: Sequence[Sample] = ()
    saved: int = 0
    number: NumberRule | None = None
    effort: Callable[[Node], int] | None = None
    stops_gradient: bool = False
    never_stored: bool = False
    commutative: bool = False
    identity: bool = False
    ordinary: Ordinary | None = None
    separate: Callable[[Node], Sequence[SharedAxis]] | None = None

    @property
    def moves_elements(self) -> bool:
        """Whether every element of the output is one of the first operand, unchanged."""
        is_view = isinstance(self.lower, View) and self.lower.inside is None
        return self.identity or is_view or isinstance(self.lower, Indirect)


# All ops by name; the modules of this folder fill it when it is imported.
ALL_OPS: dict[str, Op] = {}


def infer_types(op: str, inputs: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    types = ALL_OPS[op].infer(*inputs, **attrs)
    return types if isinstance(types, tuple) else (types,)


Reference = Callable[..., Array]


def numpy_dtype(dtype: str) -> Any:
    return np.dtype(DTYPE_TABLE[dtype].numpy)


def wgsl_type(dtype: str) -> str:
    """The type of an element inside WGSL expressions: a word, even if memory holds bytes."""
    return DTYPE_TABLE[dtype].wgsl


def check_number(value: float | int | bool, dtype: str) -> None:
    """Refuse numbers that WGSL cannot write: infinities, NaN, and integers out of range."""
    if dtype in INTEGERS:
        low, high = INTEGER_RANGES[dtype]
        if value != int(value) or not low <= value <= high:
            raise ShapeError(f"{value} does not fit {dtype} ({low} to {high})")
    elif dtype != "bool" and not (isfinite(value) and abs(value) <= LARGEST_FLOAT):
        raise ShapeError(f"a constant must be finite, and {value} is not a finite {dtype}")


def literal(value: float | int | bool, dtype: str) -> str:
    """`value` as a WGSL literal; negative numbers are in parentheses."""
    type_ = wgsl_type(dtype)
    if type_ == "bool":
        return "true" if value else "false"
    if type_ == "u32":
        return f"{int(value)}u"
    if type_ == "i32":
        # -2147483648i would be the negation of a number that i32 cannot hold.
        return f"{int(value)}i" if value >= 0 else f"i32({int(value)})"
    text = f"{float(value)!r}f"
    return f"({text})" if text.startswith("-") else text


FOLDER = Path(__file__).parent / "wgsl"


def source_of(functions: Iterable[str]) -> str:
    """The text of these helper files, each once, sorted by name (WGSL allows any order)."""
    return "\n".join(_read(name) for name in sorted(set(functions)))


@cache
def _read(name: str) -> str:
    return (FOLDER / f"{name}.wgsl").read_text(encoding="utf-8")


_WORDS = {FLOATS: "floats", INTEGERS: "integers", NUMBERS: "numbers", ("bool",): "bools"}


def check_dtype(op: str, type_: TensorType, dtypes: Sequence[str]) -> None:
    if type_.dtype not in dtypes:
        wanted = _WORDS.get(tuple(dtypes), " or ".join(dtypes))
        raise ShapeError(f"{op} takes {wanted}, not {type_}")


def check_same(op: str, *types: TensorType) -> None:
    for other in types[1:]:
        if other != types[0]:
            raise ShapeError(f"the operands of {op} differ: {types[0]} and {other}")


def check_axis(op: str, type_: TensorType, axis: int) -> None:
    if not 0 <= axis < type_.rank:
        raise ShapeError(f"{op}: {type_} has no axis {axis}")


def check_axes(op: str, type_: TensorType, axes: Sequence[int]) -> None:
    for axis in axes:
        check_axis(op, type_, axis)
    if list(axes) != sorted(set(axes)):
        raise ShapeError(f"{op}: axes {tuple(axes)} must ascend, each once")


def check_sizes(op: str, shape: Sequence[int]) -> None:
    if any(size < 1 for size in shape):
        raise ShapeError(f"{op}: every size must be at least 1, not {list(shape)}")


def check_scalar(op: str, what: str, type_: TensorType, dtypes: Sequence[str]) -> None:
    if type_.shape:
        raise ShapeError(f"{op}: {what} must be a scalar, not {type_}")
    check_dtype(f"{op}: {what}", type_, dtypes)


def without_axes(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def other_axes(node: Node) -> list[SharedAxis]:
    """All axes but the attribute `axis`; every input and the output have as many."""
    others = (k for k in range(node.output.type.rank) if k != node.attrs["axis"])
    return [((k,) * len(node.inputs), (k,)) for k in others]
