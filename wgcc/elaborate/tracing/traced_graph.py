"""A graph under construction: which parameters and state it has read and written so far; and
that of one round of a loop, where what it reads from outside is captured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wgcc.elaborate.index_ranges.input_ranges import Lookup
from wgcc.elaborate.tracing.dims import SAME, Dim, compare, sizes_of
from wgcc.elaborate.tracing.values import ParamRef, StateRef, Tensor
from wgcc.ir.graph import Builder, EntryFacts, Graph, Node, Rows, TensorType, Value
from wgcc.ir.loops import bodies, fresh_name, loop_of
from wgcc.ops import infer_types
from wgcc.ops.markers import DIFFERENTIATING


class TracedGraph:
    """`taken` are names that values of the graph must not get: those of parameters and state.

    With `dry` set no node is recorded: sizes are placeholders, and only the checks matter.
    """

    def __init__(self, taken: Iterable[str] = (), dry: bool = False) -> None:
        self.dry = dry
        self.builder = Builder(infer_types, taken)
        self.inputs: list[Value] = []
        self.any_floats: set[str] = set()
        self.rows: list[tuple[Dim, list[str]]] = []
        self.params: dict[str, Value] = {}
        self.state: dict[str, Value] = {}
        self.writes: dict[str, Value] = {}
        self.old: dict[Value, str] = {}
        self.lookups: list[Lookup] = []
        # The positions of the loops around the body that this is, if it is one: outermost first.
        self.positions: tuple[Value, ...] = ()
        self._current: dict[str, Tensor] = {}
        self._contents: set[Value] = set()
        self._names: dict[Value, str] = {}
        self._results: dict[str, Value] = {}
        self._captured: set[str] = set()
        self._producers: dict[Value, Node] = {}

    def input(
        self, name: str, dtype: str, dims: tuple[Dim, ...], any_float: bool = False
    ) -> Tensor:
        value = Value(self.builder.fresh(name), TensorType(sizes_of(dims), dtype))
        self.inputs.append(value)
        if any_float:
            self.any_floats.add(value.name)
        if dims:
            self._add_rows(value.name, dims[0])
        return Tensor(value, dims)

    def _add_rows(self, name: str, dim: Dim) -> None:
        """Inputs with the same leading dim have rows that belong together."""
        for known, names in self.rows:
            if compare(known, dim) is SAME:
                names.append(name)
                return
        self.rows.append((dim, [name]))

    def read(self, ref: ParamRef | StateRef) -> Tensor:
        """The current tensor: the last one written in this graph, or the stored one."""
        if ref.path not in self._current:
            value = Value(ref.path, TensorType(sizes_of(ref.dims), ref.dtype))
            (self.params if isinstance(ref, ParamRef) else self.state)[ref.path] = value
            self._current[ref.path] = Tensor(value, ref.dims)
            self._contents.add(value)
        return self._current[ref.path]

    def current_contents(self) -> dict[Value, str]:
        """The parameters and state that were read, by their current values."""
        return {tensor.value: path for path, tensor in self._current.items()}

    def own(self, value: Value) -> Value:
        """`value` as a node of this graph reads it."""
        return value

    def is_stored(self, tensor: Tensor) -> bool:
        """Whether a parameter or state has or had it as content: a copy needs its own value."""
        return tensor.value in self._contents

    def write(self, ref: ParamRef | StateRef, tensor: Tensor) -> None:
        before = self.read(ref).value
        self.old[before] = ref.path
        self._current[ref.path] = Tensor(tensor.value, ref.dims)
        self._contents.add(tensor.value)
        self.writes[ref.path] = tensor.value

    def apply(
        self,
        op: str,
        inputs: tuple[Value, ...],
        types: tuple[TensorType, ...],
        attrs: Mapping[str, Any],
    ) -> tuple[Value, ...]:
        if self.dry:
            return tuple(Value(op, type_) for type_ in types)
        values = self.builder.apply_many(op, *inputs, **attrs)
        self._producers.update(dict.fromkeys(values, self.builder.nodes[-1]))
        actual = tuple(value.type for value in values)
        assert actual == types, f"{op}: {actual} where the tracer expects {types}"
        return values

    def producer(self, value: Value) -> Node | None:
        """The node of a value; None for sources, and for what another graph computes."""
        return self._producers.get(value)

    def look_up(self, lookup: Lookup) -> None:
        """Record that something is indexed with a value."""
        if not self.dry:
            self.lookups.append(lookup)

    def name(self, value: Value, name: str) -> None:
        """Give a value the name that the source binds it to; the first name is kept."""
        if self.dry:
            return
        stored = self.params.get(value.name) or self.state.get(value.name)
        if value in self._names or value == stored or value in self.inputs:
            return
        self._names[value] = self.builder.fresh(name)

    def keep_name(self, value: Value, name: str, captured: bool = False) -> None:
        """Keep another name of a value: its layer's, or one that the source captures it under."""
        if self.dry:
            return
        free = fresh_name(name, {*self._results})
        self._results[free] = self.own(value)
        if captured:
            self._captured.add(free)

    def trains(self) -> bool:
        """Whether a parameter is updated from a gradient, by `minimize` or by explicit `grad`."""
        from_gradients: set[Value] = set()
        for node in self.builder.nodes:
            if _differentiates(node) or not from_gradients.isdisjoint(node.inputs):
                from_gradients.update(node.outputs)
        written = (self.writes[path] for path in self.params if path in self.writes)
        return any(value in from_gradients for value in written)

    def finish(self, name: str, outputs: Mapping[str, Value]) -> Graph:
        renamed = {old: replace(old, name=new) for old, new in self._names.items()}

        def now(values: tuple[Value, ...]) -> tuple[Value, ...]:
            return tuple(renamed.get(value, value) for value in values)

        nodes = tuple(
            Node(node.op, now(node.inputs), now(node.outputs), node.attrs, node.span)
            for node in self.builder.nodes
        )
        self.lookups = [replace(item, value=now((item.value,))[0]) for item in self.lookups]
        rows = tuple(
            Rows(dim.size, tuple(names), dim.name, decided_by=_decided_by(dim))
            for dim, names in self.rows
        )
        facts = EntryFacts(
            any_floats=frozenset(self.any_floats),
            trains=self.trains(),
            rows=rows,
            named={key: renamed.get(value, value) for key, value in self._results.items()},
            captured=frozenset(self._captured),
        )
        return Graph(
            name,
            tuple(self.inputs),
            tuple(self.params.values()),
            tuple(self.state.values()),
            nodes,
            {key: renamed.get(value, value) for key, value in outputs.items()},
            {key: renamed.get(value, value) for key, value in self.writes.items()},
            entry=facts,
        )


def _decided_by(dim: Dim) -> tuple[str, int] | None:
    """The declared dim to change for another size: itself, or the first that it is made of."""
    if dim.is_literal:
        return None
    return (dim.name, dim.size) if dim.name else next(iter(dim.declared_dims()), ("", dim.size))


def _differentiates(node: Node) -> bool:
    loop = loop_of(node)
    parts = (loop.body, *bodies(loop.body)) if loop else ()
    return node.op in DIFFERENTIATING or any(
        inner.op in DIFFERENTIATING for part in parts for inner in part.nodes
    )


class TracedBody(TracedGraph):
    """`outer` is the graph that the loop is in, or the body of the loop around it.

    Parameters and state that the body writes are carried from round to round: `written` are they.
    """

    def __init__(self, outer: TracedGraph) -> None:
        super().__init__(dry=outer.dry)
        self.outer = outer
        self.builder = outer.builder.inner()
        self.index = self._fresh("index", TensorType((), "u32"))
        self.carries: list[Value] = []
        self.slices: list[Value] = []
        self.captured: dict[Value, Value] = {}
        self.written: dict[str, ParamRef | StateRef] = {}
        self._own = {self.index}
        self._made: set[Value] = set()
        self._stored: dict[str, tuple[Value, Value]] = {}
        self.positions = (*map(self.own, outer.positions), self.index)

    def carry(self, like: Tensor, name: str) -> Tensor:
        """A value that the last round computed, of the type of `like`."""
        self.carries.append(self._source(name, like.value.type))
        return Tensor(self.carries[-1], like.dims)

    def slice(self, like: Tensor, name: str) -> Tensor:
        """The part of `like` for this round; the rounds are its leading axis."""
        type_ = TensorType(like.value.shape[1:], like.dtype)
        self.slices.append(self._source(name, type_))
        return Tensor(self.slices[-1], like.dims[1:])

    def read(self, ref: ParamRef | StateRef) -> Tensor:
        if ref.path not in self._current:
            outer = self.outer.read(ref).value
            self._stored[ref.path] = (outer, self._capture(outer))
            self._current[ref.path] = Tensor(self._stored[ref.path][1], ref.dims)
        return self._current[ref.path]

    def is_stored(self, tensor: Tensor) -> bool:
        """Carries need no copies: what is written to one may be the old content of another."""
        return False

    def write(self, ref: ParamRef | StateRef, tensor: Tensor) -> None:
        self.read(ref)
        self.written[ref.path] = ref
        self.writes[ref.path] = self.own(tensor.value)
        self._current[ref.path] = Tensor(self.writes[ref.path], ref.dims)

    def apply(
        self,
        op: str,
        inputs: tuple[Value, ...],
        types: tuple[TensorType, ...],
        attrs: Mapping[str, Any],
    ) -> tuple[Value, ...]:
        values = super().apply(op, tuple(map(self.own, inputs)), types, attrs)
        self._own.update(values)
        self._made.update(values)
        return values

    def own(self, value: Value) -> Value:
        """`value` as the body sees it."""
        if self.dry or value in self._own:
            return value
        return self._capture(self.outer.own(value))

    def look_up(self, lookup: Lookup) -> None:
        super().look_up(lookup.of(self.own(lookup.value)))

    def name(self, value: Value, name: str) -> None:
        """Only what the body computes has a name of its own."""
        if value in self._made:
            super().name(value, name)

    def keep_name(self, value: Value, name: str, captured: bool = False) -> None:
        """A layer that returns what it was given makes nothing in this round."""
        if captured or value in self._made:
            super().keep_name(value, name, captured)

    def finish_round(
        self, after: Sequence[Value], outputs: Mapping[str, Value]
    ) -> tuple[Graph, list[Value], list[Value]]:
        """The body, the initial values of written state (its last carries), and what is captured.

        `after` are the next values of the other carries.
        """
        nexts = dict(zip((value.name for value in self.carries), map(self.own, after), strict=True))
        starts = []
        for path in self.written:
            start, carry = self._stored[path]
            starts.append(start)
            self.carries.append(carry)
            nexts[carry.name] = self._current[path].value
        written = {carry for _, carry in (self._stored[path] for path in self.written)}
        captured = [pair for pair in self.captured.items() if pair[1] not in written]
        self.inputs = [self.index, *self.slices, *(inner for _, inner in captured)]
        self.state = {value.name: value for value in self.carries}
        self.writes = nexts
        results = {name: self.own(value) for name, value in outputs.items()}
        return self.finish("body", results), starts, [outer for outer, _ in captured]

    def _capture(self, outer: Value) -> Value:
        if outer not in self.captured:
            self.captured[outer] = self._source(f"{outer.name}.in", outer.type)
        return self.captured[outer]

    def _source(self, name: str, type_: TensorType) -> Value:
        source = self._fresh(name, type_)
        self._own.add(source)
        return source

    def _fresh(self, name: str, type_: TensorType) -> Value:
        return Value(self.builder.fresh(name), type_)
