"""Computes the values of `remat` layers a second time where gradients need them.

Between the marks of a region (see wgcc/ops/markers.py) nothing is kept for the way back: when its
first gradient arrives, its nodes are written once more, from the region's arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Graph, Node, Value
from wgcc.passes.rewrite import Rewrite

MARK = "remat"


class Recompute:
    """The regions of a tape, and the second writing of those that were reached."""

    def __init__(self, builder: Builder, tape: Sequence[Node]) -> None:
        self.builder = builder
        self.tape = tape
        self._region_of: dict[str, int] = {}
        self._spans: dict[int, tuple[int, int]] = {}
        self._again: dict[str, Value] = {}
        self._written: set[int] = set()
        for at, node in enumerate(tape):
            if node.op == MARK:
                first, _ = self._spans.get(node.attrs["region"], (at, at))
                self._spans[node.attrs["region"]] = (first, at)
        for region, (first, last) in self._spans.items():
            inside = (node for node in tape[first:last] if node.op != MARK)
            self._region_of.update((v.name, region) for node in inside for v in node.outputs)

    def again(self, node: Node, after: Value) -> Node:
        """`node` itself, or what stands for it once its region is computed again."""
        region = self._region_of.get(node.outputs[0].name)
        if region is None:
            return node
        if region not in self._written:
            self._written.add(region)
            self._write(region, after)
        return self._second(node)

    def _write(self, region: int, after: Value) -> None:
        first, last = self._spans[region]
        for node in self.tape[first:last]:
            if node.op == MARK and not node.attrs["is_end"]:
                self._again[node.output.name] = self.builder.apply("again", node.inputs[0], after)
            elif any(value.name in self._again for value in node.inputs):
                outputs = tuple(self._fresh(value) for value in node.outputs)
                self._again.update(zip((v.name for v in node.outputs), outputs, strict=True))
                self.builder.nodes.append(self._second(node))

    def _fresh(self, value: Value) -> Value:
        return Value(self.builder.fresh(f"{value.name}.again"), value.type)

    def _second(self, node: Node) -> Node:
        return replace(
            node,
            inputs=tuple(self._again.get(value.name, value) for value in node.inputs),
            outputs=tuple(self._again.get(value.name, value) for value in node.outputs),
        )


def without_marks(graph: Graph) -> Graph:
    rewrite = Rewrite(graph)
    for node in graph.nodes:
        if node.op == MARK:
            rewrite.put(node.output, rewrite.current(node.inputs[0]))
        else:
            rewrite.keep(node)
    return rewrite.finish()
