"""Loops in a graph: a node whose attribute `body` is the graph of one round.

A body is shaped like an entry:

- `body.inputs` are the index, the slices, and what is captured. The index (u32) is the position t
  of this round: 0 to `rounds` - 1, or downwards if `reverse`. A slice is x[t]: the rounds are the
  leading axis of every x.
- `body.state` are the carries; `body.writes` has the next value of each of them.
- `body.outputs` are values of one round; stack[t] of the node has that of the round at t.
- It has no parameters: they are captured. Names differ from all others of the entry.

The node's inputs are the initial carries, the xs, what is captured; its outputs are the carries
after the last round, and the stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from wgcc.ir.graph import Graph, Node, TensorType, Value


@dataclass(frozen=True, slots=True)
class LoopNode:
    """A node with a body: what its inputs and outputs are, outside and inside."""

    node: Node

    @property
    def body(self) -> Graph:
        body: Graph = self.node.attrs["body"]
        return body

    @property
    def rounds(self) -> int:
        return int(self.node.attrs["rounds"])

    @property
    def reverse(self) -> bool:
        return bool(self.node.attrs["reverse"])

    @property
    def positions(self) -> range:
        """The index of every round, in order."""
        return range(self.rounds)[::-1] if self.reverse else range(self.rounds)

    @property
    def index(self) -> Value:
        return self.body.inputs[0]

    @property
    def carries(self) -> tuple[Value, ...]:
        return self.body.state

    @property
    def next_carries(self) -> tuple[Value, ...]:
        return tuple(self.body.writes[value.name] for value in self.body.state)

    @property
    def inits(self) -> tuple[Value, ...]:
        return self.node.inputs[: len(self.body.state)]

    @property
    def finals(self) -> tuple[Value, ...]:
        return self.node.outputs[: len(self.body.state)]

    @property
    def carried(self) -> tuple[tuple[Value, Value], ...]:
        """Each carry outside: before the first round and after the last."""
        return tuple(zip(self.inits, self.finals, strict=True))

    @property
    def stacks(self) -> tuple[Value, ...]:
        return self.node.outputs[len(self.body.state) :]

    @property
    def sliced(self) -> tuple[tuple[Value, Value], ...]:
        """Each x with its slice in the body."""
        return tuple(pair for pair in self._read() if pair[0].type != pair[1].type)

    @property
    def invariants(self) -> tuple[tuple[Value, Value], ...]:
        """Each value that all rounds read, with its name in the body."""
        return tuple(pair for pair in self._read() if pair[0].type == pair[1].type)

    def _read(self) -> Iterator[tuple[Value, Value]]:
        return zip(self.node.inputs[len(self.carries) :], self.body.inputs[1:], strict=True)


def loop_of(node: Node) -> LoopNode | None:
    return LoopNode(node) if "body" in node.attrs else None


def stack_type(type_: TensorType, rounds: int) -> TensorType:
    """The type of all rounds of a value."""
    return TensorType((rounds, *type_.shape), type_.dtype)


def bodies(graph: Graph) -> Iterator[Graph]:
    """The bodies of all loops of `graph`, also of those in bodies."""
    for node in graph.nodes:
        if loop := loop_of(node):
            yield loop.body
            yield from bodies(loop.body)


def values_of(graph: Graph) -> Iterator[Value]:
    """Every value of `graph`, without those of its bodies."""
    yield from graph.sources
    for node in graph.nodes:
        yield from node.outputs


def all_names(graph: Graph) -> Iterator[str]:
    """The names of every value of an entry, bodies included."""
    yield from (value.name for value in values_of(graph))
    for body in bodies(graph):
        yield from (value.name for value in values_of(body))


def with_body(node: Node, body: Graph) -> Node:
    return node if body is node.attrs["body"] else replace(node, attrs={**node.attrs, "body": body})


def where_loops(graph_pass: Callable[[Graph], Graph]) -> Callable[[Graph], Graph]:
    """A pass that leaves graphs without loops as they are."""

    def run(graph: Graph) -> Graph:
        return graph_pass(graph) if any(map(loop_of, graph.nodes)) else graph

    return run


def map_bodies(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """`graph` with every body (not those inside bodies) replaced by what `change` makes of it."""
    if not any("body" in node.attrs for node in graph.nodes):
        return graph
    nodes = [
        with_body(node, change(loop.body)) if (loop := loop_of(node)) else node
        for node in graph.nodes
    ]
    return unique_names(replace(graph, nodes=tuple(nodes)))


def with_rounds(graph: Graph) -> Graph:
    """`graph` with the nodes of one round in front of each loop, to see how they use values.

    It cannot be run: slices and carries are inputs of it.
    """
    nodes: list[Node] = []
    inputs: list[Value] = list(graph.inputs)
    for node in graph.nodes:
        if loop := loop_of(node):
            names = {inner.name: outer for outer, inner in loop.invariants}
            round_ = with_rounds(rename(loop.body, names))
            nodes += round_.nodes
            inputs += [v for v in (*round_.inputs, *round_.state) if v not in names.values()]
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), inputs=tuple(inputs))


def unique_names(graph: Graph) -> Graph:
    """`graph` with other names in bodies where two values of the entry have the same."""
    return _separate(graph, set())


def _separate(graph: Graph, taken: set[str]) -> Graph:
    """`graph` without the names `taken` (which it adds its own to)."""
    names: dict[str, Value] = {}
    for value in values_of(graph):
        free = fresh_name(value.name, taken)
        taken.add(free)
        if free != value.name:
            names[value.name] = Value(free, value.type)
    graph = rename(graph, names)
    if not any("body" in node.attrs for node in graph.nodes):
        return graph
    nodes = (
        with_body(node, _separate(loop.body, taken)) if (loop := loop_of(node)) else node
        for node in graph.nodes
    )
    return replace(graph, nodes=tuple(nodes))


def with_fresh_names(node: Node, fresh: Callable[[str], str]) -> Node:
    """A loop whose body has other names, as a copy needs; other nodes stay as they are."""
    loop = loop_of(node)
    if loop is None:
        return node
    names = {v.name: Value(fresh(v.name), v.type) for v in values_of(loop.body)}
    body = rename(loop.body, names)
    nodes = tuple(with_fresh_names(inner, fresh) for inner in body.nodes)
    return with_body(node, replace(body, nodes=nodes))


def fresh_name(name: str, taken: set[str]) -> str:
    candidate, count = name, 1
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    return candidate


def rename(graph: Graph, names: dict[str, Value]) -> Graph:
    """`graph` with other values for those whose names are keys of `names`."""
    if not names:
        return graph

    def new(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(names.get(value.name, value) for value in values)

    def of(name: str) -> str:
        return names[name].name if name in names else name

    return replace(
        graph,
        inputs=new(graph.inputs),
        state=new(graph.state),
        constants=tuple(replace(c, value=new((c.value,))[0]) for c in graph.constants),
        nodes=tuple(
            replace(node, inputs=new(node.inputs), outputs=new(node.outputs))
            for node in graph.nodes
        ),
        outputs={key: new((value,))[0] for key, value in graph.outputs.items()},
        writes={of(key): new((value,))[0] for key, value in graph.writes.items()},
    )


@dataclass(frozen=True, slots=True)
class Part:
    """A value of one round of a loop that is stored as element `index` of a larger one.

    The rounds are the leading axis of `whole`; `index` is the loop's counter.
    """

    whole: Value
    index: Value

    @property
    def rounds(self) -> int:
        return self.whole.shape[0]
