"""The graph of one round of a loop under construction: what it reads from outside is captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wgcc.elaborate.index_ranges.input_ranges import Lookup
from wgcc.elaborate.tracing.traced_graph import TracedGraph
from wgcc.elaborate.tracing.values import ParamRef, StateRef, Tensor
from wgcc.ir.graph import Graph, TensorType, Value


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
        made = super().apply(op, tuple(map(self.own, inputs)), types, attrs)
        self._own.update(made)
        self._made.update(made)
        return made

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
        found = self._fresh(name, type_)
        self._own.add(found)
        return found

    def _fresh(self, name: str, type_: TensorType) -> Value:
        return Value(self.builder.fresh(name), type_)
