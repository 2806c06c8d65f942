"""Give every gradient that an update reads a value of its own, which can be stored in its arena.

A gradient may be a view, a constant, or the same value for two parameters; an arena holds none of
these. Everything that reads the gradients of an update then reads the copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Graph, Node, Value
from wgcc.ops.registry import ReduceMany, Repeat, Source
from wgcc.passes.dataflow import lowering, moves
from wgcc.passes.rewrite import builder_for
from wgcc.passes.updates import is_update, lists_of, partners

# The values of one gradient, by the parameters it belongs to.
Own = dict[str, Value]


def own_gradients(graph: Graph) -> Graph:
    """Gradients have their final form by now, which nothing changes any more."""
    if not any(is_update(node) for node in graph.nodes):
        return graph
    owners, builder = partners(graph), builder_for(graph)
    made = graph.producers
    wanted = _wanted(graph, owners, made)
    own: dict[str, Own] = {}
    for node in graph.nodes:
        if is_update(node) or isinstance(lowering(node), ReduceMany):
            for value in dict.fromkeys(node.inputs):
                if value.name in wanted and value.name not in own:
                    own[value.name] = _values(builder, value, made, wanted[value.name])
            node = _with_own(node, own, owners)
        builder.nodes.append(node)
    return replace(graph, nodes=tuple(builder.nodes))


def _wanted(
    graph: Graph, owners: Mapping[str, str], made: Mapping[str, Node]
) -> dict[str, list[str]]:
    """Gradients by name, each with its parameters; what another update made is in an arena."""
    found: dict[str, list[str]] = {}
    for node in graph.nodes:
        for value, parameter in _gradients(node, owners):
            maker = made.get(value.name)
            if maker is None or not is_update(maker):
                known = found.setdefault(value.name, [])
                known += [parameter] if parameter not in known else []
    return found


def _gradients(node: Node, owners: Mapping[str, str]) -> list[tuple[Value, str]]:
    lists = lists_of(node) if is_update(node) else {}
    if "g" not in lists:
        return []
    partner = next(values for name, values in lists.items() if name != "g")
    return [(g, owners[p.name]) for g, p in zip(lists["g"], partner, strict=True)]


def _values(builder: Builder, value: Value, made: Mapping[str, Node], parameters: list[str]) -> Own:
    """The value itself for one parameter, if it can be put anywhere; copies for the others."""
    own, last = {}, value
    for i, parameter in enumerate(parameters):
        if i or not _can_be_put(value, made):
            maker = made.get(value.name)
            with builder.at(maker.span if maker else None, value.name):
                # A copy of the last one, because equal nodes would be merged.
                last = builder.apply("copy", last, name=f"{value.name}.copy")
        own[parameter] = last
    return own


def _can_be_put(value: Value, made: Mapping[str, Node]) -> bool:
    """Is it computed, by no loop, and from something that is not known beforehand?"""
    maker = made.get(value.name)
    if maker is None or moves(maker) or isinstance(lowering(maker), Source | Repeat):
        return False
    return not _is_fixed(value, made)


def _is_fixed(value: Value, made: Mapping[str, Node]) -> bool:
    """Does it depend on no source of the graph, so that it may become a constant?"""
    waiting, seen = [value], {value.name}
    while waiting:
        maker = made.get(waiting.pop().name)
        if maker is None:
            return False
        new = [operand for operand in maker.inputs if operand.name not in seen]
        seen.update(operand.name for operand in new)
        waiting += new
    return True


def _with_own(node: Node, own: Mapping[str, Own], owners: Mapping[str, str]) -> Node:
    inputs = list(node.inputs)
    if is_update(node):
        gradients = _gradients(node, owners)
        start = list(lists_of(node)).index("g") * node.attrs["n"] if gradients else 0
        for i, (value, parameter) in enumerate(gradients):
            inputs[start + i] = own.get(value.name, {}).get(parameter, value)
        return replace(node, inputs=tuple(inputs))
    # The values of one gradient are equal, so it does not matter which of them is taken first.
    left = {name: list(values.values()) for name, values in own.items()}
    for i, value in enumerate(inputs):
        if left.get(value.name):
            inputs[i] = left[value.name].pop(0)
    return replace(node, inputs=tuple(inputs))
