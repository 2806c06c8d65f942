"""The producers and readers of each value of a graph, seen through the ops that only move elements.

Which parameter each tensor of the optimizer belongs to, and which of them are side by side.

Gradients, moments, accumulators and averages take the offsets of their parameters in arenas of
the same form, so one kernel can loop over all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from wgcc.ir.graph import Graph, Node, Value, once_per_graph
from wgcc.ir.index import Coordinates, indices, variable
from wgcc.ir.places import ALIGNMENT, Place, ceil_div, round_up
from wgcc.ops import OPS
from wgcc.ops.registry import (
    FromIndex,
    Indirect,
    Join,
    Lowering,
    Pointwise,
    Reduce,
    Update,
    UpdateForm,
    View,
)

# What is behind more views is stored: each of them takes index arithmetic at every use.
MOST_VIEWS = 32
# More ways from a value to its readers are not followed.
MOST_WAYS = 64


def lowering(node: Node) -> Lowering:
    return OPS[node.op].lower


def moves(node: Node) -> bool:
    """Does it only say where elements come from?"""
    return isinstance(lowering(node), View | Join)


def rearranges_axes(node: Node) -> bool:
    """Is an element still found by its place along each axis, as in a transpose?"""
    lower = lowering(node)
    return isinstance(lower, View) and lower.rearranges_axes


def keeps_order(node: Node) -> bool:
    """Is it a view of all elements in the same order, as a reshape is?"""
    lower = lowering(node)
    return isinstance(lower, View) and lower.in_order


def behind_views(value: Value, makers: Mapping[str, Node]) -> Value:
    """The value that this one is a view of, or itself; `makers` has the node of each value."""
    node = makers.get(value.name)
    while node is not None and isinstance(lowering(node), View):
        value = node.inputs[0]
        node = makers.get(value.name)
    return value


def computes_by_element(node: Node) -> bool:
    return isinstance(lowering(node), Pointwise | Indirect | FromIndex)


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
        pending, ways = [(value, value.type.size)], list[tuple[Node, int]]()
        for views in range(MOST_VIEWS + 1):
            ahead = []
            for part, count in pending:
                for node in self.consumers.get(part.name, ()):
                    if views < MOST_VIEWS and through(node):
                        ahead.append((node.output, elements_read(node, part, count)))
                    else:
                        ways.append((node, count))
            pending = ahead[:MOST_WAYS]
        return ways


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
    """How many elements are read through `node`, a view or join, if `count` of `operand` are."""
    if isinstance(lowering(node), Join) or node.op == "unslice":
        return count
    return ceil_div(count * node.output.type.size, operand.type.size)


def compared_with_extreme(flow: Flow) -> set[str]:
    """Computed values whose elements are compared with the largest or smallest of them.

    Computed twice, an element may be rounded otherwise, and equal nothing: compilers are free to
    fuse a product and a sum in one place and not in another.
    """
    names = set()
    for node in flow.graph.nodes:
        if isinstance(lowering(node), Pointwise):
            readers = {reader.op for reader in flow.readers(node.output)}
            if "eq" in readers and readers & {"max", "min", "peak"}:
                names.add(node.output.name)
    return names


def operand_places(node: Node, coordinates: Coordinates) -> list[tuple[Value, Coordinates]]:
    """Which elements of its operands a node reads to give its element at `coordinates`."""
    lower = lowering(node)
    if isinstance(lower, Pointwise):
        return [(value, coordinates) for value in node.inputs]
    if isinstance(lower, FromIndex):
        return [(value, ()) for value in node.inputs]
    if isinstance(lower, View):
        return [(node.inputs[0], indices(lower.index(node, coordinates)))]
    if isinstance(lower, Join):
        return _joined_places(node, coordinates)
    if isinstance(lower, Indirect):
        table, places = node.inputs
        stored_index = variable(f"found in {places.name}", lower.limit(node) + 1)
        return [
            (places, indices(lower.at(node, coordinates))),
            (table, indices(lower.index(node, coordinates, stored_index))),
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


Key = TypeVar("Key")


def is_update(node: Node) -> bool:
    return isinstance(lowering(node), Update)


def form_of(node: Node) -> UpdateForm:
    lower = lowering(node)
    assert isinstance(lower, Update)
    return _form(lower, tuple(node.attrs.items()))


@lru_cache(maxsize=256)
def _form(lower: Update, attrs: tuple[tuple[str, Any], ...]) -> UpdateForm:
    """Remembered, because every step of the back end asks for it, for each update."""
    return lower.form(dict(attrs))


def lists_of(node: Node) -> dict[str, tuple[Value, ...]]:
    """The lists of n tensors each that an update reads, by name."""
    n = node.attrs["n"]
    return {name: node.inputs[i * n : (i + 1) * n] for i, name in enumerate(form_of(node).lists)}


def scalars_of(node: Node) -> dict[str, Value]:
    form = form_of(node)
    rest = node.inputs[len(form.lists) * node.attrs["n"] :]
    return dict(zip(form.scalars, rest, strict=True))


def replaced_by(node: Node) -> dict[str, Value]:
    """For each output of an update, by name, the tensor whose content it replaces."""
    lists, n = lists_of(node), node.attrs["n"]
    old_tensors: dict[str, Value] = {}
    for i, name in enumerate(form_of(node).writes):
        outputs = node.outputs[i * n : (i + 1) * n]
        old_tensors |= {o.name: old for o, old in zip(outputs, lists[name], strict=True)}
    return old_tensors


@once_per_graph
def partners(graph: Graph) -> Mapping[str, str]:
    """The parameter each tensor of an update belongs to: the k-th of all lists go together."""
    updates = [node for node in graph.nodes if is_update(node)]
    owners: dict[str, str] = {}
    for node in updates:
        owners |= {value.name: value.name for value in lists_of(node).get("p", ())}
    before = -1
    while len(owners) > before:
        before = len(owners)
        for node in updates:
            _spread(node, owners)
    return owners


def _spread(node: Node, owners: dict[str, str]) -> None:
    olds = replaced_by(node)
    for output, old in olds.items():
        parameter = owners.get(old.name, owners.get(output))
        if parameter is not None:
            owners[output] = owners[old.name] = parameter
    for together in zip(*lists_of(node).values(), strict=True):
        parameter = next((owners[v.name] for v in together if v.name in owners), None)
        if parameter is not None:
            owners.update((v.name, parameter) for v in together)


def bound_alone(graph: Graph) -> set[str]:
    """The values with a binding of their own: all but single elements that are in no arena."""
    values = [*graph.sources, *(value for node in graph.nodes for value in node.outputs)]
    inside = set(partners(graph)) | {value.name for value in graph.params}
    inside |= {value.name for target, value in graph.writes.items() if target in inside}
    inside |= {constant.value.name for constant in graph.constants}
    for node in graph.nodes:
        if node.op == "flat":
            inside |= {value.name for value in (*node.inputs, node.output)}
    return {value.name for value in values if value.type.size > 1 or value.name in inside}


def in_arenas(graph: Graph) -> set[str]:
    """The values that updates and reductions over whole arenas read."""
    names: set[str] = set()
    for node in graph.nodes:
        if is_update(node):
            names.update(v.name for values in lists_of(node).values() for v in values)
        elif node.op == "flat":
            names.update(value.name for value in node.inputs)
    return names


def runs(names: Sequence[str], places: Mapping[str, Place]) -> list[list[int]]:
    """Indices of `names`, in order of place, cut wherever the next does not follow at once."""
    return [
        [i for i, _ in run] for run in adjacent([(i, places[name]) for i, name in enumerate(names)])
    ]


def adjacent(items: Iterable[tuple[Key, Place]]) -> list[list[tuple[Key, Place]]]:
    """The items in order of place, cut where the next is not adjacent in the same buffer."""
    groups: list[list[tuple[Key, Place]]] = []
    end = ("", 0)
    for key, place in sorted(items, key=lambda item: _order(item[1])):
        if (place.buffer, place.offset) != end:
            groups.append([])
        groups[-1].append((key, place))
        end = place.buffer, place.offset + round_up(place.count, ALIGNMENT)
    return groups


def _order(place: Place) -> tuple[int, str, int]:
    """`params.10` comes after `params.9`."""
    return len(place.buffer), place.buffer, place.offset


def overwrites_bytes(node: Node | None, name: str) -> bool:
    """Does it write a window into the packed bytes of this state?"""
    if node is None or node.op != "window_update":
        return False
    base = node.inputs[0]
    return base.name == name and base.type.is_packed and base.type.size > 1
