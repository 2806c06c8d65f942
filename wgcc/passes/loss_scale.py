"""Captured gradients of a loss that `loss_scale` multiplied: autograd notes the scale at each, and
what is captured is divided by it, as in the update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from wgcc.ir.graph import Builder, Graph, Node, Value
from wgcc.ir.loops import bodies, loop_of, with_body
from wgcc.ops.markers import WATCHED

Scale = float | str


def with_scale(node: Node, scale: Scale) -> Node:
    """`scale`: a number, or the name of the value that has it."""
    if node.op == WATCHED:
        return replace(node, attrs={**node.attrs, "scale": scale})
    if loop := loop_of(node):
        nodes = tuple(with_scale(inner, scale) for inner in loop.body.nodes)
        return with_body(node, replace(loop.body, nodes=nodes))
    return node


def divide_by_scale(
    graph: Graph, values: Mapping[str, Value], b: Builder
) -> tuple[Graph, dict[str, Value]]:
    """`values`: what is captured, by the names of watched gradients. f16 could not hold all of
    them unscaled, so the result is f32."""
    results, known = dict(values), {value.name: value for value in graph.sources}
    known |= {value.name: value for node in graph.nodes for value in node.outputs}
    for name, (scale, node) in _scales(graph).items():
        if scale == 1.0 or name not in results:
            continue
        with b.at(node.span, f"{name}.unscaled"):
            value = b.apply("cast", results[name], dtype="f32")
            number = known[scale] if isinstance(scale, str) else b.constant(scale)
            divisor = b.apply("broadcast", number, shape=value.shape) if value.shape else number
            results[name] = b.apply("div", value, divisor)
    return replace(graph, nodes=(*graph.nodes, *b.nodes)), results


def _scales(graph: Graph) -> dict[str, tuple[Scale, Node]]:
    return {
        node.output.name: (node.attrs.get("scale", 1.0), node)
        for level in _levels(graph)
        for node in level.nodes
        if node.op == WATCHED
    }


def _levels(graph: Graph) -> Iterator[Graph]:
    yield graph
    yield from bodies(graph)
