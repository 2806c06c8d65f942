"""Lets what is equal but for a number share kernels: such numbers become constants in memory, bound
by their addresses, where they would be numbers in a kernel each. These are what distinguishes the
random draws of equal layers, and the learning rates or weight decays of parameter groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wgcc.evaluate import to_words
from wgcc.ir.graph import Constant, Graph, Node, TensorType, Value
from wgcc.ir.places import MAX_BINDINGS
from wgcc.lazy_numpy import np
from wgcc.passes.updates import form_of, is_update, scalars_of

# With so few draws, a kernel each is cheaper than the binding that a site in memory takes.
FEW_SITES = 3
# With so few updates, a kernel each is cheaper than the bindings that numbers in memory take.
FEW_UPDATES = 8
# Scalars of the step, and f16 copies of parameters, which an update may bind as well.
OTHER_BINDINGS = 2


def numbers_in_memory(graph: Graph) -> Graph:
    return _update_numbers_in_memory(_sites_in_memory(graph))


def _sites_in_memory(graph: Graph) -> Graph:
    sites = {node.attrs["site"] for node in graph.nodes if _has_fixed_site(node)}
    if len(sites) <= FEW_SITES:
        return graph
    constants = {site: _site_constant(site) for site in sorted(sites)}
    nodes = tuple(
        _with_site(node, constants[node.attrs["site"]].value) if _has_fixed_site(node) else node
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes, constants=(*graph.constants, *constants.values()))


def _has_fixed_site(node: Node) -> bool:
    """In loops the site is computed from the round."""
    return node.op == "random" and len(node.inputs) == 2


def _site_constant(site: int) -> Constant:
    """Its name has a slash, so it is that of no value of the model."""
    return to_words(np.asarray(site), Value(f"rng/site/{site}", TensorType((), "u32")))


def _with_site(node: Node, site: Value) -> Node:
    return replace(node, inputs=(*node.inputs, site), attrs={**node.attrs, "site": 0})


def _update_numbers_in_memory(graph: Graph) -> Graph:
    updates = [node for node in graph.nodes if is_update(node)]
    if len(updates) <= FEW_UPDATES:
        return graph
    producers = graph.producers
    numbers = [_numbers(node, producers) for node in updates]
    shared = set.intersection(*map(set, numbers))
    moved: dict[str, Constant] = {}
    for node, reached in zip(updates, numbers, strict=True):
        own = {name: number for name, number in reached.items() if name not in shared}
        if len(form_of(node).lists) + OTHER_BINDINGS + len(own) <= MAX_BINDINGS:
            moved |= {name: _constant(number) for name, number in own.items()}
    nodes = tuple(_reading(node, moved) for node in graph.nodes if not _is_moved(node, moved))
    constants = {constant.value.name: constant for constant in moved.values()}
    return replace(graph, nodes=nodes, constants=(*graph.constants, *constants.values()))


def _numbers(update: Node, producers: Mapping[str, Node]) -> dict[str, float]:
    """The constants that the update's scalars are computed from, by name."""
    numbers: dict[str, float] = {}
    pending, seen = list(scalars_of(update).values()), set()
    while pending:
        value = pending.pop()
        node = producers.get(value.name)
        if node is None or value.shape or value.name in seen:
            continue
        seen.add(value.name)
        if node.op == "const" and value.dtype == "f32":
            numbers[value.name] = node.attrs["value"]
        pending += node.inputs
    return numbers


def _constant(number: float) -> Constant:
    """Its name has a slash, so it is that of no value of the model."""
    return to_words(np.asarray(number), Value(f"number/{number!r}", TensorType((), "f32")))


def _is_moved(node: Node, moved: Mapping[str, Constant]) -> bool:
    return len(node.outputs) == 1 and node.output.name in moved


def _reading(node: Node, moved: Mapping[str, Constant]) -> Node:
    if not any(value.name in moved for value in node.inputs):
        return node
    inputs = (moved[v.name].value if v.name in moved else v for v in node.inputs)
    return replace(node, inputs=tuple(inputs))
