"""Who makes and who reads each value of a graph, seen through the ops that only move elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from wgcc.ir.graph import Graph, Node, Value, once_per_graph
from wgcc.ir.index import Coordinates, indices, variable
from wgcc.ops import OPS
from wgcc.ops.registry import Indirect, Join, Lowering, Pointwise, Reduce, Source, View

# What is behind more views is stored: each of them takes index arithmetic at every use.
MOST_VIEWS = 32
# More ways from a value to its readers are not followed.
MOST_WAYS = 64


def lowering(node: Node) -> Lowering:
    return OPS[node.op].lower


def moves(node: Node) -> bool:
    """Does it only say where elements come from?"""
    return isinstance(lowering(node), View | Join)


def behind_views(value: Value, makers: Mapping[str, Node]) -> Value:
    """What a value is a view of, or itself; `makers` has the node of each value."""
    node = makers.get(value.name)
    while node is not None and isinstance(lowering(node), View):
        value = node.inputs[0]
        node = makers.get(value.name)
    return value


def computes_by_element(node: Node) -> bool:
    return isinstance(lowering(node), Pointwise | Indirect | Source)


@dataclass(frozen=True, slots=True)
class Flow:
    """`results` are used outside of the graph. `sizes` counts the elements of every value.
    `in_bytes` are tensors of one byte per element.
    """

    graph: Graph
    producers: Mapping[str, Node]
    consumers: Mapping[str, tuple[Node, ...]]
    results: frozenset[str]
    sizes: Mapping[str, int]
    in_bytes: frozenset[str]

    @classmethod
    def of(cls, graph: Graph) -> Flow:
        return _flow(graph)

    def size(self, name: str) -> int:
        """The elements of a value; 0 if there is none of this name."""
        return self.sizes.get(name, 0)

    def readers(self, value: Value, through: Callable[[Node], bool] = moves) -> Iterator[Node]:
        """The nodes that compute with this value, directly or through views.

        One that reads it in two ways comes twice; more ways are not followed. A chain of more than
        MOST_VIEWS views is cut somewhere, so that the view at its end is the reader.
        """
        pending, ways = [(value.name, 0)], Counter[str]()
        while pending:
            name, views = pending.pop()
            for node in self.consumers.get(name, ()):
                if views == MOST_VIEWS or not through(node):
                    yield node
                elif ways[node.output.name] < 2:
                    ways[node.output.name] += 1
                    pending.append((node.output.name, views + 1))

    def reads(
        self, value: Value, through: Callable[[Node], bool] = moves
    ) -> list[tuple[Node, int]]:
        """The ways to its readers, and how many elements are read on each.

        Slices leave elements out, broadcasts repeat them; what puts them among others does neither.
        """
        pending, found = [(value, value.type.size)], list[tuple[Node, int]]()
        for views in range(MOST_VIEWS + 1):
            ahead = []
            for part, count in pending:
                for node in self.consumers.get(part.name, ()):
                    if views < MOST_VIEWS and through(node):
                        ahead.append((node.output, elements_read(node, part, count)))
                    else:
                        found.append((node, count))
            pending = ahead[:MOST_WAYS]
        return found


@once_per_graph
def _flow(graph: Graph) -> Flow:
    values = (*graph.sources, *(value for node in graph.nodes for value in node.outputs))
    return Flow(
        graph,
        graph.producers,
        graph.consumers,
        frozenset(value.name for value in graph.results),
        {value.name: value.type.size for value in values},
        frozenset(value.name for value in graph.sources if value.type.is_packed),
    )


def elements_read(node: Node, operand: Value, count: int) -> int:
    """Of those of an operand, by what reads a view or join of it."""
    if isinstance(lowering(node), Join) or node.op == "unslice":
        return count
    return -(-count * node.output.type.size // operand.type.size)


def compared_with_extreme(flow: Flow) -> set[str]:
    """Computed values whose elements are compared with the largest or smallest of them.

    Computed twice, an element may be rounded otherwise, and equal nothing: compilers are free to
    fuse a product and a sum in one place and not in another.
    """
    found = set()
    for node in flow.graph.nodes:
        if isinstance(lowering(node), Pointwise):
            readers = {reader.op for reader in flow.readers(node.output)}
            if "eq" in readers and readers & {"max", "min", "peak"}:
                found.add(node.output.name)
    return found


def operand_places(node: Node, coordinates: Coordinates) -> list[tuple[Value, Coordinates]]:
    """Which elements of its operands a node reads to give its element at `coordinates`."""
    lower = lowering(node)
    if isinstance(lower, Pointwise):
        return [(value, coordinates) for value in node.inputs]
    if isinstance(lower, Source):
        return [(value, ()) for value in node.inputs]
    if isinstance(lower, View):
        return [(node.inputs[0], indices(lower.index(node, coordinates)))]
    if isinstance(lower, Join):
        return _joined_places(node, coordinates)
    if isinstance(lower, Indirect):
        table, places = node.inputs
        found = variable(f"found in {places.name}", lower.limit(node) + 1)
        return [
            (places, indices(lower.at(node, coordinates))),
            (table, indices(lower.index(node, coordinates, found))),
        ]
    raise AssertionError(f"{node.op} is not computed element by element")


def _joined_places(node: Node, coordinates: Coordinates) -> list[tuple[Value, Coordinates]]:
    axis, start, places = int(node.attrs["axis"]), 0, []
    for value in node.inputs:
        place = (*coordinates[:axis], coordinates[axis] - start, *coordinates[axis + 1 :])
        places.append((value, place))
        start += value.shape[axis]
    return places


def iterations(node: Node) -> int:
    """How many elements a node loops over."""
    if isinstance(lowering(node), Reduce):
        return node.inputs[0].type.size
    return max(value.type.size for value in node.outputs)
