"""Find sums that can ride on a matrix product: column sums of its right operand.

The gradient of a bias is such a sum, and the gradient of the weight beside it is the product that
loads the same elements anyway.
"""

from __future__ import annotations

from wgcc.ir.graph import Node, Value
from wgcc.ops.registry import View
from wgcc.schedule.emit import Coordinates
from wgcc.schedule.flow import Flow, lowering
from wgcc.schedule.index import coordinates_of, indices, linear, variable
from wgcc.schedule.space import folding_space

Leaf = tuple[str, Coordinates]


def find_riders(flow: Flow, anchors: set[str]) -> dict[str, Node]:
    """The sum that rides on each product, by the name of the product's value."""
    sums: dict[tuple[Leaf, int, int], Node] = {}
    for node in flow.graph.nodes:
        if node.op == "sum" and node.output.dtype == "f32":
            key = _column_sum(flow, anchors, node)
            if key is not None:
                sums.setdefault(key, node)
    riders: dict[str, Node] = {}
    for node in flow.graph.nodes:
        if node.op == "matmul" and len(node.output.shape) == 2:
            depth, cols = node.inputs[1].shape
            at = (variable("k", depth), variable("n", cols))
            rider = sums.pop((_leaf(flow, anchors, node.inputs[1], at), depth, cols), None)
            if rider is not None:
                riders[node.output.name] = rider
    return riders


def _column_sum(flow: Flow, anchors: set[str], node: Node) -> tuple[Leaf, int, int] | None:
    operand = node.inputs[0]
    runs = folding_space(operand.shape, node.attrs["axes"]).runs
    if [folded for folded, _ in runs] != [True, False]:
        return None
    (_, depth), (_, cols) = runs
    position = linear((variable("k", depth), variable("n", cols)), (depth, cols))
    at = coordinates_of(position, operand.shape)
    return _leaf(flow, anchors, operand, at), depth, cols


def _leaf(flow: Flow, anchors: set[str], value: Value, at: Coordinates) -> Leaf:
    """What a value shows at some coordinates, seen through plain views."""
    while True:
        node = flow.producers.get(value.name)
        lower = lowering(node) if node is not None and value.name not in anchors else None
        if node is None or not isinstance(lower, View) or lower.inside is not None:
            return value.name, at
        value, at = node.inputs[0], indices(lower.index(node, at))
