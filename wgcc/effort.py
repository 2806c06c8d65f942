"""About how long numpy takes to evaluate a graph, counted in elements that it touches.

Most ops touch each element of their results once or twice; the few that do far more are named here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

from wgcc.ir.graph import Graph, Node

# A call of numpy takes as long as so many elements.
CALL = 1000


def effort(graph: Graph) -> int:
    return nodes_effort(graph.nodes)


def nodes_effort(nodes: Iterable[Node]) -> int:
    return sum(_results(node) + MORE.get(node.op, _nothing)(node) for node in nodes)


def _results(node: Node) -> int:
    return sum(value.type.size for value in node.outputs)


def _nothing(node: Node) -> int:
    return 0


def _product(node: Node) -> int:
    return node.output.type.size * (node.inputs[0].shape[-1] // 8)


def _inputs(node: Node) -> int:
    return sum(value.type.size for value in node.inputs)


def _scores(node: Node) -> int:
    """There is a score for every row and key, and each is touched several times."""
    q, k = node.inputs[:2]
    return q.type.size // q.shape[-1] * k.shape[-2] * (8 + q.shape[-1] // 4)


def _convolution(node: Node) -> int:
    """A matrix product for every place of the kernel."""
    rows, columns, inputs, _ = node.inputs[1].shape
    places = rows * columns
    return places * (node.output.type.size * (inputs // 8 + 2) + 4 * CALL)


def _pooling(node: Node) -> int:
    return prod(node.attrs["kernel"]) * (node.output.type.size + 4 * CALL)


def _places(node: Node) -> int:
    return prod(node.output.shape[3:5]) * 4 * CALL


def _states(node: Node) -> int:
    """Step after step, a state for every channel."""
    u, _, a = node.inputs[:3]
    return u.shape[1] * 8 * CALL + 8 * u.type.size * a.shape[-1]


def _random(node: Node) -> int:
    return 20 * node.output.type.size


MORE: dict[str, Callable[[Node], int]] = {
    "matmul": _product,
    "scan": _inputs,
    "conv2d": _convolution,
    "max_pool2d": _pooling,
    "avg_pool2d": _pooling,
    "patches": _places,
    "unpatches": _places,
    "attention": _scores,
    "attention_grad_q": _scores,
    "attention_grad_kv": _scores,
    "selective_scan": _states,
    "selective_scan_grad": _states,
    "random": _random,
}
