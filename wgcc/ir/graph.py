"""The intermediate representation: one graph per entry, over whole tensors, in SSA form.

- A `Value` is a named tensor of known type. A `Node` applies one op to values and defines one or
  more values. A `Graph` lists its nodes in execution order.
- Every value is defined once, before its uses: as an input, parameter or state, or by one node.
- Names are unique in a graph and come from the source (`blocks.0.attn.q`), gradients are `d.NAME`.
- The types of a node's outputs are what the op's shape rule gives (`verify` checks it).
- A `Constant` is a tensor that was computed at compile time; its value is a source like an input.
- Effects happen at the end of the entry only: `writes` says which parameter or state gets what.
- Nothing here is ever changed in place: a pass returns a new graph.

A `Builder` appends nodes to a graph under construction. Shape rules run there, so a badly typed
node never exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from math import prod
from typing import Any, TypeVar

from wgcc.errors import Span
from wgcc.ir.dtypes import DTYPES as DTYPES
from wgcc.ir.dtypes import FLOATS as FLOATS
from wgcc.ir.dtypes import INTEGERS as INTEGERS
from wgcc.ir.dtypes import PACKED, words_of

T = TypeVar("T")
Attrs = Mapping[str, Any]
# Numbers that decided what was traced, at a place of the source.
Choice = tuple[Span, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class TensorType:
    shape: tuple[int, ...]
    dtype: str = "f32"

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def words(self) -> int:
        """How many words it takes where callers see it."""
        return words_of(self.dtype, self.size)

    @property
    def is_packed(self) -> bool:
        """Whether it has four elements in a word where callers see it."""
        return self.dtype in PACKED

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.shape else self.dtype


@dataclass(frozen=True, slots=True)
class Value:
    name: str
    type: TensorType

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    def __str__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True, slots=True)
class Node:
    op: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attrs: Attrs = field(default_factory=dict)
    span: Span | None = None

    @property
    def output(self) -> Value:
        """The value of a node that defines exactly one."""
        (only,) = self.outputs
        return only


@dataclass(frozen=True, slots=True)
class Constant:
    """`words` holds the elements as the GPU does: 32 bits each (f16 as f32), or one byte."""

    value: Value
    words: bytes


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """An index or label must be `low` to `high`, or `ignore`; `what` describes it."""

    low: int
    high: int
    ignore: int | None
    what: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class RangeGuard:
    """The check that failed first is `checks[-flag]`, if the graph's `range_flag` is not 0.

    `restored` names the parameters and state that a failed call may have changed.
    """

    checks: tuple[RangeCheck, ...]
    restored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """The inputs of an entry that have one leading axis: `count` rows, a dim called `dim` or "".

    If each row is computed alone, `outputs` says what becomes of them: `rows` (the leading axis of
    the output), `mean` or `sum` over all rows, or the `same` for any rows. Otherwise `why` says
    what prevents that. `decided_by` is the declared dim, with its size, that another number of rows
    would change: `("B", 8)`; None for a number written in the types of the entry.
    """

    count: int
    inputs: tuple[str, ...]
    dim: str = ""
    decided_by: tuple[str, int] | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """The front end's knowledge about an entry, for its plan; bodies of loops have none.

    - `ranges`: which numbers (low, high, one more or None) an integer input may hold, if the
      program uses it as an index; `range_guard` checks the indices that this does not cover
    - `any_floats`: the inputs that may hold NaN and infinity
    - `trains`: it updates parameters from gradients; `inseparable` says what prevents that these
      are all stored before an update uses one, if something does
    - `rows`: what may be its rows; after `mark_rows`, at most one of them
    - `choices`: known of graphs that are only traced to compare them
    - `named`: results of layers by the layer's path, and what the source captures, which `captured`
      names; known until `add_captures`, also of bodies
    - `captures`: what runtimes show beside the outputs, by name; see `ir/program.py`
    """

    ranges: Mapping[str, tuple[int, int, int | None]] = field(default_factory=dict)
    range_guard: RangeGuard | None = None
    any_floats: frozenset[str] = frozenset()
    trains: bool = False
    inseparable: str = ""
    rows: tuple[Rows, ...] = ()
    choices: tuple[Choice, ...] = ()
    named: Mapping[str, Value] = field(default_factory=dict)
    captured: frozenset[str] = frozenset()
    captures: Mapping[str, Capture] = field(default_factory=dict)


def once_per_graph(compute: Callable[[Graph], T]) -> Callable[[Graph], T]:
    """A function of a graph whose result is kept with the graph, which never changes."""
    key = _fact_name(compute)

    @wraps(compute)
    def fact(graph: Graph) -> T:
        facts = graph._facts
        if key not in facts:
            facts[key] = compute(graph)
        result: T = facts[key]
        return result

    return fact


def keep_fact(graph: Graph, compute: Callable[[Graph], T], fact: T) -> None:
    """Say what such a function gives for a graph, so that it is not computed."""
    graph._facts[_fact_name(compute)] = fact


def _fact_name(compute: Callable[[Graph], Any]) -> str:
    return f"{compute.__module__}.{compute.__qualname__}"


@dataclass(frozen=True, slots=True)
class Graph:
    """One entry: its interface (`inputs`, `outputs`), the `params` and `state` it reads or writes.

    `range_flag` (u32) is 0, or says which index is out of range; `entry` has what else is known of
    the entry, which passes need not look at.
    """

    name: str
    inputs: tuple[Value, ...] = ()
    params: tuple[Value, ...] = ()
    state: tuple[Value, ...] = ()
    nodes: tuple[Node, ...] = ()
    outputs: Mapping[str, Value] = field(default_factory=dict)
    writes: Mapping[str, Value] = field(default_factory=dict)
    constants: tuple[Constant, ...] = ()
    range_flag: Value | None = None
    entry: EntryFacts = EntryFacts()
    _facts: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def with_facts(self, **facts: Any) -> Graph:
        """The same graph with other facts of its entry."""
        return replace(self, entry=replace(self.entry, **facts))

    @property
    def producers(self) -> Mapping[str, Node]:
        """The node that makes each value that is no source, by name."""
        return _producers(self)

    @property
    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read each value, by name, each once."""
        return _consumers(self)

    @property
    def sources(self) -> tuple[Value, ...]:
        """Every value that no node defines."""
        constants = (constant.value for constant in self.constants)
        return (*self.inputs, *self.params, *self.state, *constants)

    @property
    def results(self) -> tuple[Value, ...]:
        """Every value that is used outside: nodes that none of them depends on are dead."""
        flags = [self.range_flag] if self.range_flag else []
        return (*self.outputs.values(), *self.writes.values(), *flags)


def producers_of(nodes: Iterable[Node]) -> dict[str, Node]:
    """The node that makes each value, by name; of a graph, ask for its `producers`."""
    return {value.name: node for node in nodes for value in node.outputs}


@once_per_graph
def _producers(graph: Graph) -> Mapping[str, Node]:
    return producers_of(graph.nodes)


@once_per_graph
def _consumers(graph: Graph) -> Mapping[str, tuple[Node, ...]]:
    consumers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for value in dict.fromkeys(node.inputs):
            consumers.setdefault(value.name, []).append(node)
    return {name: tuple(nodes) for name, nodes in consumers.items()}


InferTypes = Callable[[str, tuple[TensorType, ...], Attrs], tuple[TensorType, ...]]


class Builder:
    """`apply` adds one node; `span` is its place in the source, `prefix` that of its name."""

    def __init__(self, infer: InferTypes, taken: Iterable[str] = ()) -> None:
        self.nodes: list[Node] = []
        self.span: Span | None = None
        self.prefix = ""
        self._infer = infer
        self._reserved = taken
        self._counts: dict[str, int] = {}

    @cached_property
    def _taken_names(self) -> set[str]:
        """The set is made for the first new name: most rewrites of a large graph add no node."""
        return set(self._reserved)

    def inner(self) -> Builder:
        """A builder of other nodes of the same entry, as the body of a loop: names differ."""
        builder = Builder(self._infer)
        builder.span, builder.prefix = self.span, self.prefix
        builder._taken_names, builder._counts = self._taken_names, self._counts
        return builder

    def apply(self, op: str, *inputs: Value, name: str = "", **attrs: Any) -> Value:
        """Add a node with one output and return its value."""
        (value,) = self.apply_many(op, *inputs, names=(name,), **attrs)
        return value

    def apply_many(
        self, op: str, *inputs: Value, names: tuple[str, ...] = (), **attrs: Any
    ) -> tuple[Value, ...]:
        """Add a node with any number of outputs."""
        types = self._infer(op, tuple(value.type for value in inputs), attrs)
        wanted = names if len(names) == len(types) else ("",) * len(types)
        outputs = tuple(
            Value(self.fresh(name or self._default_name(op)), type_)
            for name, type_ in zip(wanted, types, strict=True)
        )
        self.nodes.append(Node(op, inputs, outputs, attrs, self.span))
        return outputs

    def constant(self, value: float | int | bool, dtype: str = "f32") -> Value:
        return self.apply("const", value=value, dtype=dtype)

    def zeros(self, like: Value) -> Value:
        """A tensor of the type of `like`."""
        zero = self.constant(0.0, like.dtype)
        return self.apply("broadcast", zero, shape=like.shape) if like.shape else zero

    @contextmanager
    def at(self, span: Span | None, prefix: str) -> Iterator[None]:
        """Nodes added inside belong to this source place and are named after `prefix`."""
        saved = self.span, self.prefix
        self.span, self.prefix = span, prefix
        try:
            yield
        finally:
            self.span, self.prefix = saved

    def fresh(self, name: str) -> str:
        """`name`, or `name_2`, `name_3`, … when it is taken; it is taken from now on."""
        candidate = name
        while candidate in self._taken_names:
            self._counts[name] = self._counts.get(name, 1) + 1
            candidate = f"{name}_{self._counts[name]}"
        self._taken_names.add(candidate)
        return candidate

    def _default_name(self, op: str) -> str:
        return f"{self.prefix}.{op}" if self.prefix else op


@dataclass(frozen=True, slots=True)
class Capture:
    """`shape` is that of the value, of which the output may be a reshaped form.

    `stats`: statistics alone are kept. `stored`: it is a parameter or state, which is read where it
    is stored.
    """

    shape: tuple[int, ...]
    stats: bool = False
    stored: bool = False
