"""Which parameter each tensor of the optimizer belongs to, and which of them are side by side.

Gradients, moments, accumulators and averages take the offsets of their parameters in arenas of
the same form, so one kernel can loop over all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from wgcc.ir.graph import Graph, Node, Value, once_per_graph
from wgcc.ir.places import ALIGNMENT, Place, round_up
from wgcc.ops.registry import Update, UpdateForm
from wgcc.passes.dataflow import lowering

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
    found: dict[str, Value] = {}
    for i, name in enumerate(form_of(node).writes):
        outputs = node.outputs[i * n : (i + 1) * n]
        found |= {o.name: old for o, old in zip(outputs, lists[name], strict=True)}
    return found


@once_per_graph
def partners(graph: Graph) -> Mapping[str, str]:
    """The parameter each tensor of an update belongs to: the k-th of all lists go together."""
    updates = [node for node in graph.nodes if is_update(node)]
    found: dict[str, str] = {}
    for node in updates:
        found |= {value.name: value.name for value in lists_of(node).get("p", ())}
    before = -1
    while len(found) > before:
        before = len(found)
        for node in updates:
            _spread(node, found)
    return found


def _spread(node: Node, found: dict[str, str]) -> None:
    olds = replaced_by(node)
    for output, old in olds.items():
        parameter = found.get(old.name, found.get(output))
        if parameter is not None:
            found[output] = found[old.name] = parameter
    for together in zip(*lists_of(node).values(), strict=True):
        parameter = next((found[v.name] for v in together if v.name in found), None)
        if parameter is not None:
            found.update((v.name, parameter) for v in together)


def bound_alone(graph: Graph) -> set[str]:
    """What takes a binding of its own: all but values of one element that are in no arena."""
    values = [*graph.sources, *(value for node in graph.nodes for value in node.outputs)]
    inside = set(partners(graph)) | {value.name for value in graph.params}
    inside |= {value.name for target, value in graph.writes.items() if target in inside}
    inside |= {constant.value.name for constant in graph.constants}
    for node in graph.nodes:
        if node.op == "flat":
            inside |= {value.name for value in (*node.inputs, node.output)}
    return {value.name for value in values if value.type.size > 1 or value.name in inside}


def in_arenas(graph: Graph) -> set[str]:
    """What updates, and reductions over whole arenas, read."""
    found: set[str] = set()
    for node in graph.nodes:
        if is_update(node):
            found.update(v.name for values in lists_of(node).values() for v in values)
        elif node.op == "flat":
            found.update(value.name for value in node.inputs)
    return found


def runs(names: Sequence[str], places: Mapping[str, Place]) -> list[list[int]]:
    """Indices of `names`, in order of place, cut wherever the next does not follow at once."""
    return [
        [i for i, _ in run] for run in adjacent([(i, places[name]) for i, name in enumerate(names)])
    ]


def adjacent(items: Iterable[tuple[Key, Place]]) -> list[list[tuple[Key, Place]]]:
    """In order of place, cut wherever the next does not follow at once in the same buffer."""
    found: list[list[tuple[Key, Place]]] = []
    end = ("", 0)
    for key, place in sorted(items, key=lambda item: _order(item[1])):
        if (place.buffer, place.offset) != end:
            found.append([])
        found[-1].append((key, place))
        end = place.buffer, place.offset + round_up(place.count, ALIGNMENT)
    return found


def _order(place: Place) -> tuple[int, str, int]:
    """`params.10` comes after `params.9`."""
    return len(place.buffer), place.buffer, place.offset


def overwrites_bytes(node: Node | None, name: str) -> bool:
    """Does it write a window into the packed bytes of this state?"""
    if node is None or node.op != "window_update":
        return False
    base = node.inputs[0]
    return base.name == name and base.type.is_packed and base.type.size > 1
