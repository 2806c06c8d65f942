"""Rematerialisation: values are recomputed for gradients instead of stored.

Values between the marks of a region (see wgcc/ops/markers.py) are not stored for the backward pass:
when it reaches the region, the region's nodes are appended once more, from its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.loops import map_bodies, with_fresh_names
from wgcc.passes.rewrite import Rewrite

MARK = "remat"
RECOMPUTE = "recompute"


class Rematerialise:
    """The regions of a tape, and the second copy of those that the backward pass has reached."""

    def __init__(self, builder: Builder, tape: Sequence[Node]) -> None:
        self.builder = builder
        self.tape = tape
        self._region_of: dict[str, int] = {}
        self._spans: dict[int, tuple[int, int]] = {}
        self._copies: dict[str, Value] = {}
        self._written: dict[str, Node] = {}
        self._done: set[int] = set()
        for at, node in enumerate(tape):
            if node.op == MARK:
                first, _ = self._spans.get(node.attrs["region"], (at, at))
                self._spans[node.attrs["region"]] = (first, at)
        for region, (first, last) in self._spans.items():
            inside = (node for node in tape[first:last] if node.op != MARK)
            self._region_of.update((v.name, region) for node in inside for v in node.outputs)

    def copy_of(self, node: Node, after: Value) -> Node:
        """`node` itself, or its rematerialised copy if it is in a region."""
        region = self._region_of.get(node.outputs[0].name)
        if region is None:
            return node
        if region not in self._done:
            self._done.add(region)
            self._write(region, after)
        return self._written.get(node.outputs[0].name) or self._copied(node)

    def _write(self, region: int, after: Value) -> None:
        first, last = self._spans[region]
        for node in self.tape[first:last]:
            if node.op == MARK and not node.attrs["is_end"]:
                start = self.builder.apply("remat_barrier", node.inputs[0], after)
                self._copies[node.output.name] = start
            elif any(value.name in self._copies for value in node.inputs):
                outputs = tuple(self._fresh(value) for value in node.outputs)
                self._copies.update(zip((v.name for v in node.outputs), outputs, strict=True))
                copy = with_fresh_names(self._copied(node), self.builder.fresh)
                self._written[node.outputs[0].name] = copy
                self.builder.nodes.append(copy)

    def _fresh(self, value: Value) -> Value:
        return Value(self.builder.fresh(f"{value.name}.remat"), value.type)

    def _copied(self, node: Node) -> Node:
        return replace(
            node,
            inputs=tuple(self._copies.get(value.name, value) for value in node.inputs),
            outputs=tuple(self._copies.get(value.name, value) for value in node.outputs),
        )


def without_marks(graph: Graph) -> Graph:
    rewrite = Rewrite(graph)
    for node in graph.nodes:
        if node.op == MARK:
            rewrite.put(node.output, rewrite.current(node.inputs[0]))
        else:
            rewrite.keep(node)
    return map_bodies(rewrite.finish(), without_marks)


def without_loop_marks(graph: Graph) -> Graph:
    """Without the marks of loops whose gradients compute values again."""
    if not any(RECOMPUTE in node.attrs for node in graph.nodes):
        return graph
    nodes = (
        replace(node, attrs={name: v for name, v in node.attrs.items() if name != RECOMPUTE})
        for node in graph.nodes
    )
    return map_bodies(replace(graph, nodes=tuple(nodes)), without_loop_marks)
