"""Lets equal layers that draw random numbers share their kernels: what distinguishes their draws
becomes a constant in memory, bound by its address, where it would be a number in each kernel."""

from __future__ import annotations

from dataclasses import replace

from wgcc.evaluate import to_words
from wgcc.ir.graph import Constant, Graph, Node, TensorType, Value
from wgcc.lazy_numpy import np

# With so few, a kernel each is cheaper than the binding that a site in memory takes.
FEW_SITES = 3


def sites_in_memory(graph: Graph) -> Graph:
    sites = {node.attrs["site"] for node in graph.nodes if _has_fixed_site(node)}
    if len(sites) <= FEW_SITES:
        return graph
    constants = {site: _constant(site) for site in sorted(sites)}
    nodes = tuple(
        _with_site(node, constants[node.attrs["site"]].value) if _has_fixed_site(node) else node
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes, constants=(*graph.constants, *constants.values()))


def _has_fixed_site(node: Node) -> bool:
    """In loops the site is computed from the round."""
    return node.op == "random" and len(node.inputs) == 2


def _constant(site: int) -> Constant:
    """Its name has a slash, so it is that of no value of the model."""
    return to_words(np.asarray(site), Value(f"rng/site/{site}", TensorType((), "u32")))


def _with_site(node: Node, site: Value) -> Node:
    return replace(node, inputs=(*node.inputs, site), attrs={**node.attrs, "site": 0})


__all__ = ["sites_in_memory"]
