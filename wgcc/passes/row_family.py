"""One entry traced with several numbers of rows: what in its graph depends on that number.

The graphs must be alike but for numbers and sizes. A number is known as a power of the number of
rows; a size either stays or grows; anything else that differs is odd, and proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose

from wgcc.errors import Span
from wgcc.ir.graph import Graph, Node, Value

# Powers of the number of rows that a constant may be: B * B, 1 / B.
POWERS = (0, 1, -1, 2, -2)
# What these attributes hold is the shape of the result, or follows from it and the operand's.
SHAPES = {("broadcast", "shape"), ("reshape", "shape"), ("iota", "n"), ("slice", "sizes")}
Sizes = tuple[int, ...]


class Differs(Exception):
    """The graphs are not alike, from a node at `at` on."""

    def __init__(self, at: Span | None) -> None:
        super().__init__()
        self.at = at


@dataclass
class Family:
    """`graph` has `counts[0]` rows. Its values and those of bodies, by name:

    `sizes` has every axis in all graphs, `powers` the constants that are not the same in all,
    `odd` what differs in another way.
    """

    graph: Graph
    counts: Sizes
    sizes: dict[str, tuple[Sizes, ...]] = field(default_factory=dict)
    powers: dict[str, int] = field(default_factory=dict)
    odd: set[str] = field(default_factory=set)

    def grows(self, value: Value) -> list[int]:
        """The axes of a value that differ from graph to graph."""
        sizes = self.sizes.get(value.name, ())
        return [axis for axis, each in enumerate(sizes) if len(set(each)) > 1]

    def is_proportional(self, value: Value, axis: int) -> bool:
        """Whether an axis is as many times the number of rows in all graphs."""
        sizes, first = self.sizes[value.name][axis], self.counts[0]
        return all(
            size * first == sizes[0] * count for size, count in zip(sizes, self.counts, strict=True)
        )

    def is_same_axis(self, a: Value, i: int, b: Value, j: int) -> bool:
        known, other = self.sizes.get(a.name), self.sizes.get(b.name)
        return known is None or other is None or known[i] == other[j]


def alone(graph: Graph, count: int) -> Family:
    """An entry of which there is no second graph: nothing is known to depend on rows."""
    return Family(graph, (count,))


def family(graphs: Sequence[Graph], counts: Sequence[int]) -> Family:
    """Raises `Differs` where the graphs are not alike."""
    found = Family(graphs[0], tuple(counts))
    _compare_choices([graph for graph in graphs if graph.choices])
    _compare(found, graphs)
    return found


def _compare_choices(graphs: Sequence[Graph]) -> None:
    for choices in zip(*(graph.choices for graph in graphs), strict=False):
        if len({(at.start, numbers) for at, numbers in choices}) > 1:
            raise Differs(choices[0][0])
    if len({len(graph.choices) for graph in graphs}) > 1:
        raise Differs(None)


def _compare(found: Family, graphs: Sequence[Graph]) -> None:
    parts = {
        (len(graph.nodes), len(graph.sources), *_ends(graph), *graph.ranges.items())
        for graph in graphs
    }
    if len(parts) > 1:
        raise Differs(_first_difference(graphs))
    for values in zip(*(graph.sources for graph in graphs), strict=True):
        _note_sizes(found, values)
    for constants in zip(*(graph.constants for graph in graphs), strict=True):
        if len({constant.words for constant in constants}) > 1:
            found.odd.add(constants[0].value.name)
    for nodes in zip(*(graph.nodes for graph in graphs), strict=True):
        _compare_nodes(found, nodes)


def _ends(graph: Graph) -> Iterator[tuple[str, str]]:
    for name, value in (*graph.outputs.items(), *graph.writes.items()):
        yield name, value.name


def _first_difference(graphs: Sequence[Graph]) -> Span | None:
    for nodes in zip(*(graph.nodes for graph in graphs), strict=False):
        first: Node = nodes[0]
        if not _alike(nodes):
            return first.span
    return None


def _alike(nodes: Sequence[Node]) -> bool:
    return len({(node.op, _names(node.inputs), _names(node.outputs)) for node in nodes}) == 1


def _names(values: Sequence[Value]) -> tuple[str, ...]:
    return tuple(value.name for value in values)


def _compare_nodes(found: Family, nodes: Sequence[Node]) -> None:
    first = nodes[0]
    if not _alike(nodes) or any(node.attrs.keys() != first.attrs.keys() for node in nodes):
        raise Differs(first.span)
    for values in zip(*(node.outputs for node in nodes), strict=True):
        _note_sizes(found, values)
    for name in _differing(nodes):
        if (first.op, name) == ("const", "value"):
            _note_power(found, nodes)
        elif name == "body":
            _compare(found, [node.attrs["body"] for node in nodes])
        elif (first.op, name) not in SHAPES:
            found.odd.update(value.name for value in first.outputs)


def _differing(nodes: Sequence[Node]) -> Iterator[str]:
    attrs: Sequence[Mapping[str, object]] = [node.attrs for node in nodes]
    for name, value in attrs[0].items():
        if name == "body" or any(each[name] != value for each in attrs):
            yield name


def _note_sizes(found: Family, values: Sequence[Value]) -> None:
    first = values[0]
    if any((v.name, v.dtype, v.type.rank) != (first.name, first.dtype, first.type.rank)
           for v in values):  # fmt: skip
        raise Differs(None)
    found.sizes[first.name] = tuple(zip(*(value.shape for value in values), strict=True))


def _note_power(found: Family, nodes: Sequence[Node]) -> None:
    name, numbers = nodes[0].output.name, [float(node.attrs["value"]) for node in nodes]
    power = next((p for p in POWERS if _is_power(numbers, found.counts, p)), None)
    if power is None:
        found.odd.add(name)
    elif power:
        found.powers[name] = power


def _is_power(numbers: Sequence[float], counts: Sizes, power: int) -> bool:
    return all(
        isclose(number, numbers[0] * (count / counts[0]) ** power, rel_tol=1e-9)
        for number, count in zip(numbers, counts, strict=True)
    )
