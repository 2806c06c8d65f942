"""A product of which only the transpose is used is computed transposed: bᵀ @ aᵀ.

The gradient of a table that is also the output layer is one: stored as the product's rows, it would
be read by columns where it is added to the gradient of the lookups.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Graph, Node, Value
from wgcc.passes.rewrite import Rewrite
from wgcc.schedule.dataflow import Flow


def turn_products(graph: Graph) -> Graph:
    flow, rewrite = Flow.of(graph), Rewrite(graph)
    for old in graph.nodes:
        node, product = rewrite.updated(old), _product_of(flow, old)
        if product is None:
            rewrite.keep(node)
        else:
            rewrite.replace(node, partial(_turned, rewrite.builder, rewrite.updated(product)))
    return rewrite.finish()


def _product_of(flow: Flow, node: Node) -> Node | None:
    """The product that this node transposes, if nothing else uses it and no product uses this."""
    if node.op != "transpose" or not _swaps_last(node.attrs["perm"]):
        return None
    value = node.inputs[0]
    product = flow.producers.get(value.name)
    if product is None or product.op != "matmul" or value.name in flow.results:
        return None
    in_products = any(reader.op == "matmul" for reader in flow.readers(node.output))
    return product if flow.consumers[value.name] == [node] and not in_products else None


def _swaps_last(perm: Sequence[int]) -> bool:
    rank = len(perm)
    return tuple(perm) == (*range(rank - 2), rank - 1, rank - 2)


def _turned(b: Builder, product: Node) -> Sequence[Value]:
    rank = len(product.output.shape)
    perm = (*range(rank - 2), rank - 1, rank - 2)
    left, right = (b.apply("transpose", value, perm=perm) for value in product.inputs)
    return [b.apply("matmul", right, left)]
