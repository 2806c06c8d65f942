"""Gradients of weights that multiply one tensor become one product with joined columns.

xᵀ @ a and xᵀ @ b, which only the optimizer reads, load x once: their kernel stores each part of its
columns in the place of its gradient.
"""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.places import MAX_BINDINGS
from wgcc.ops.registry import Pointwise, ReduceMany, Update
from wgcc.passes.dataflow import Flow, behind_views, lowering
from wgcc.passes.prepare.join_products import (
    MOST,
    fill_vectors,
    is_plain_product,
    join_groups,
)
from wgcc.passes.prepare.split_long import parts_of


def join_gradients(graph: Graph) -> Graph:
    return join_groups(graph, _together(Flow.of(graph)), at=-1)


def _together(flow: Flow) -> dict[str, list[Node]]:
    """For each gradient that is computed together with others, all of them."""
    found: dict[str, list[Node]] = {}
    for node in flow.graph.nodes:
        if is_plain_product(node) and _is_gradient(flow, node) and parts_of(node) == 1:
            found.setdefault(node.inputs[0].name, []).append(node)
    places = {id(node): place for place, node in enumerate(flow.graph.nodes)}
    groups = [g for products in found.values() for g in _before_readers(flow, products, places)]
    return {node.output.name: group for group in groups if _fit(flow, group) for node in group}


def _before_readers(
    flow: Flow, products: list[Node], places: Mapping[int, int]
) -> list[list[Node]]:
    """Products that are all computed before one of them is read: an update may come in between.

    `places` of nodes in the graph, by their ids.
    """
    groups: list[list[Node]] = []
    first_reader = 0
    for product in products:
        if not groups or places[id(product)] > first_reader:
            groups.append([])
            first_reader = len(places)
        groups[-1].append(product)
        readers = [places[id(reader)] for reader in flow.consumers[product.output.name]]
        first_reader = min(first_reader, *readers)
    return groups


def _is_gradient(flow: Flow, node: Node) -> bool:
    """Do only updates, and reductions over all gradients, read it?"""
    readers = flow.consumers.get(node.output.name, ())
    are_last = all(isinstance(lowering(reader), Update | ReduceMany) for reader in readers)
    return bool(readers) and are_last and node.output.name not in flow.results


def _fit(flow: Flow, products: list[Node]) -> bool:
    """May one kernel compute them? Each takes two of its bindings.

    A product with a bias gradient beside it adds up the columns of its own operand alone.
    """
    if not 2 <= len(products) <= MOST:
        return False
    leaves = _leaves(flow, products[0].inputs[0])
    widths = [node.output.shape[1] for node in products]
    is_small = 2 * len(products) + leaves <= MAX_BINDINGS
    return is_small and fill_vectors(widths) and not any(_is_summed(flow, p) for p in products)


def _leaves(flow: Flow, value: Value) -> int:
    """What is bound for an operand: a tensor and what scales its columns, as norms do."""
    node = _maker(flow, value)
    if node is None or not isinstance(lowering(node), Pointwise):
        return 1
    scales = [operand for operand in node.inputs if _maker(flow, operand) is None]
    others = [operand for operand in node.inputs if operand not in scales]
    if not scales or len(others) > 1:
        return 1
    return len(scales) + sum(_leaves(flow, operand) for operand in others)


def _maker(flow: Flow, value: Value) -> Node | None:
    """The node that computes what a value is a view of; a parameter has none."""
    return flow.producers.get(behind_views(value, flow.producers).name)


def _is_summed(flow: Flow, product: Node) -> bool:
    value = behind_views(product.inputs[1], flow.producers)
    return any(reader.op == "sum" for reader in flow.readers(value))
