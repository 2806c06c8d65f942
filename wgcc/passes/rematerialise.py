"""Rematerialisation: values are recomputed for gradients instead of stored.

Values between the marks of a region (see wgcc/ops/markers.py) are not stored for the backward pass:
when it reaches the region, the region's nodes are appended once more, from its arguments.

Rematerialisation in parts: divides the forward pass into parts that gradients recompute.

Only values that cross from one part into the next are stored, and the parts are chosen so that
these are few. They are marked like `remat` layers (see wgcc/ops/markers.py), for autograd.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate

from wgcc.ir.graph import Builder, Graph, Node, Value
from wgcc.ir.loops import map_bodies, with_fresh_names
from wgcc.ops import OPS
from wgcc.ops.markers import DIFFERENTIATING
from wgcc.ops.registry import FromIndex, Join, View
from wgcc.passes.rewrite import Rewrite, without_marks


def mark_remat(graph: Graph, parts: int) -> Graph:
    """`graph` with marks around all but the last of `parts`, if it trains; loops are marked."""
    end = next((i for i, node in enumerate(graph.nodes) if node.op in DIFFERENTIATING), 0)
    graph = _mark_loops(without_loop_marks(graph), 1 if parts < 3 else 2)
    if not end:
        return graph
    graph = without_marks(graph, MARK)
    end = next(i for i, node in enumerate(graph.nodes) if node.op in DIFFERENTIATING)
    return _Marking(graph).run(_cuts(graph.nodes[:end], parts))


def _mark_loops(graph: Graph, level: int) -> Graph:
    """Gradients of loops compute values of a round again: see `wgcc/ops/repeat.py`."""
    nodes = tuple(
        replace(node, attrs={**node.attrs, RECOMPUTE: level}) if "body" in node.attrs else node
        for node in graph.nodes
    )
    return map_bodies(replace(graph, nodes=nodes), partial(_mark_loops, level=level))


class _Marking:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.rewrite = Rewrite(graph)

    def run(self, cuts: Sequence[int]) -> Graph:
        start = 0
        for region, cut in enumerate(cuts):
            self._mark(region + 1, start, cut)
            start = cut
        for node in self.graph.nodes[start:]:
            self.rewrite.keep(node)
        return self.rewrite.finish()

    def _mark(self, region: int, start: int, end: int) -> None:
        """Insert marks for what the nodes of a region read, and for their results."""
        nodes, rest = self.graph.nodes[start:end], self.graph.nodes[end:]
        inside = {value.name for node in nodes for value in node.outputs}
        entering = [value for value in _read(nodes) if self._varies(value) - inside]
        before = {value.name: self.rewrite.current(value) for value in entering}
        for value in entering:
            self.rewrite.put(value, self._add_mark(before[value.name], region, is_end=False))
        for node in nodes:
            self.rewrite.keep(node)
        for value in entering:
            self.rewrite.put(value, before[value.name])
        for value in _read(rest, self.graph.results):
            if value.name in inside:
                self.rewrite.put(value, self._add_mark(value, region, is_end=True))

    def _add_mark(self, value: Value, region: int, is_end: bool) -> Value:
        builder = self.rewrite.builder
        name = f"{value.name}.{'end' if is_end else 'start'}"
        return builder.apply(MARK, value, name=name, region=region, is_end=is_end)

    def _varies(self, value: Value) -> set[str]:
        """Its name, unless it is a parameter, state or constant, which is stored anyway."""
        sources = {source.name for source in self.graph.sources}
        given = {source.name for source in self.graph.inputs}
        return {value.name} - (sources - given)


def _read(nodes: Sequence[Node], results: Iterable[Value] = ()) -> list[Value]:
    """The values that some nodes read, and `results`; each once, in order."""
    inputs = (value for node in nodes for value in node.inputs)
    return list(dict.fromkeys((*inputs, *results)))


def _cuts(tape: Sequence[Node], parts: int) -> list[int]:
    """Near each of the positions that divide the tape evenly, the one that least values cross."""
    made = [0, *accumulate(_stored_size(node) for node in tape)]
    crossing = _crossing(tape)
    share, cuts = made[-1] / parts, [0]
    for k in range(1, parts):
        near = [p for p in range(1, len(tape)) if abs(made[p] - k * share) <= share / 2]
        near = [p for p in near if p > cuts[-1]]
        if near:
            cuts.append(min(near, key=lambda p: (crossing[p], abs(made[p] - k * share))))
    return cuts[1:]


def _stored_size(node: Node) -> int:
    """How many elements of a node may be stored."""
    if isinstance(OPS[node.op].lower, View | Join | FromIndex):
        return 0
    return sum(value.type.size for value in node.outputs)


def _crossing(tape: Sequence[Node]) -> list[int]:
    """For each position in the tape, the elements defined before it that are read after it."""
    last = {value.name: i for i, node in enumerate(tape) for value in node.inputs}
    steps = [0] * (len(tape) + 2)
    for i, node in enumerate(tape):
        for value in node.outputs:
            steps[i + 1] += value.type.size
            steps[max(last.get(value.name, i), i) + 1] -= value.type.size
    return list(accumulate(steps))


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
        return self._written.get(node.outputs[0].name) or self._copy(node)

    def _write(self, region: int, after: Value) -> None:
        first, last = self._spans[region]
        for node in self.tape[first:last]:
            if node.op == MARK and not node.attrs["is_end"]:
                start = self.builder.apply("remat_barrier", node.inputs[0], after)
                self._copies[node.output.name] = start
            elif any(value.name in self._copies for value in node.inputs):
                outputs = tuple(self._fresh(value) for value in node.outputs)
                self._copies.update(zip((v.name for v in node.outputs), outputs, strict=True))
                copy = with_fresh_names(self._copy(node), self.builder.fresh)
                self._written[node.outputs[0].name] = copy
                self.builder.nodes.append(copy)

    def _fresh(self, value: Value) -> Value:
        return Value(self.builder.fresh(f"{value.name}.remat"), value.type)

    def _copy(self, node: Node) -> Node:
        return replace(
            node,
            inputs=tuple(self._copies.get(value.name, value) for value in node.inputs),
            outputs=tuple(self._copies.get(value.name, value) for value in node.outputs),
        )


def without_loop_marks(graph: Graph) -> Graph:
    """The graph without the marks of loops whose gradients compute values again."""
    if not any(RECOMPUTE in node.attrs for node in graph.nodes):
        return graph
    nodes = (
        replace(node, attrs={name: v for name, v in node.attrs.items() if name != RECOMPUTE})
        for node in graph.nodes
    )
    return map_bodies(replace(graph, nodes=tuple(nodes)), without_loop_marks)
