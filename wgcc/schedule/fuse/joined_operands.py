"""Values joined of several that kernel families load many times: which of them are stored."""

from __future__ import annotations

from wgcc.ir.graph import Node, Value
from wgcc.ops.registry import Join, Pointwise, Special
from wgcc.passes.dataflow import Flow, behind_views, computes_by_element, lowering, moves


def loads_often(node: Node) -> bool:
    return isinstance(lowering(node), Special)


def joined_operands(flow: Flow) -> set[str]:
    """Those none of whose parts is in memory anyway.

    Where one is, storing it once more would move its bytes for nothing: products then load each
    element from the part it is in.
    """

    follow_products = _follow_products(flow)

    def is_in_memory(value: Value, join: Node) -> bool:
        if any(loads_often(n) for n in flow.readers(value, lambda n: moves(n) and n is not join)):
            return True
        value = behind_views(value, flow.producers)
        node = flow.producers.get(value.name)
        computed = node is not None and (computes_by_element(node) or moves(node))
        return not computed or value.name in follow_products

    def is_stored(join: Node) -> bool:
        is_operand = any(map(loads_often, flow.readers(join.output)))
        return is_operand and not any(is_in_memory(value, join) for value in join.inputs)

    joins = (node for node in flow.graph.nodes if isinstance(lowering(node), Join))
    return {node.output.name for node in joins if is_stored(node)}


def _follow_products(flow: Flow) -> set[str]:
    """What the kernel of a product can compute of its results, and store beside them."""
    found: set[str] = set()
    for node in flow.graph.nodes:
        if node.op == "matmul":
            found.add(node.output.name)
        elif node.op == "reshape" or isinstance(lowering(node), Pointwise):
            size = node.output.type.size
            if any(v.name in found and v.type.size == size for v in node.inputs):
                found.add(node.output.name)
    return found
