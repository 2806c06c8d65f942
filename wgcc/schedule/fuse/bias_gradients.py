"""Find bias gradients to fuse with a matrix product: column sums of its right operand.

The gradient of a bias is such a sum, and the gradient of the weight beside it is the product that
loads the same elements anyway.
"""

from __future__ import annotations

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import Coordinates, coordinates_of, indices, linear, variable
from wgcc.ir.iteration_space import reduction_space
from wgcc.ops.registry import View
from wgcc.passes.dataflow import Flow, lowering

Leaf = tuple[str, Coordinates]


def find_bias_gradients(flow: Flow, materialised: set[str]) -> dict[str, Node]:
    """The sum fused with each product, by the name of the product's value."""
    sums: dict[tuple[Leaf, int, int], Node] = {}
    for node in flow.graph.nodes:
        if node.op == "sum" and node.output.dtype == "f32":
            key = _column_sum(flow, materialised, node)
            if key is not None:
                sums.setdefault(key, node)
    bias_gradients: dict[str, Node] = {}
    for node in flow.graph.nodes:
        if node.op == "matmul" and len(node.output.shape) == 2:
            depth, cols = node.inputs[1].shape
            at = (variable("k", depth), variable("n", cols))
            bias_gradient = sums.pop(
                (_leaf(flow, materialised, node.inputs[1], at), depth, cols), None
            )
            if bias_gradient is not None:
                bias_gradients[node.output.name] = bias_gradient
    return bias_gradients


def _column_sum(flow: Flow, materialised: set[str], node: Node) -> tuple[Leaf, int, int] | None:
    operand = node.inputs[0]
    runs = reduction_space(operand.shape, node.attrs["axes"]).runs
    if [reduced for reduced, _ in runs] != [True, False]:
        return None
    (_, depth), (_, cols) = runs
    position = linear((variable("k", depth), variable("n", cols)), (depth, cols))
    at = coordinates_of(position, operand.shape)
    return _leaf(flow, materialised, operand, at), depth, cols


def _leaf(flow: Flow, materialised: set[str], value: Value, at: Coordinates) -> Leaf:
    """What a value shows at some coordinates, seen through plain views."""
    while True:
        node = flow.producers.get(value.name)
        lower = lowering(node) if node is not None and value.name not in materialised else None
        if node is None or not isinstance(lower, View) or lower.inside is not None:
            return value.name, at
        value, at = node.inputs[0], indices(lower.index(node, at))
