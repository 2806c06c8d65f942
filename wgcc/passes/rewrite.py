"""Rebuilds a graph node by node: the loop that most passes share.

Dead-code elimination: drops every node that no result depends on, also in bodies of loops, and
carries, stacks and inputs of loops that nothing needs.

Replaces composite ops (softmax, layer_norm, …) by the simpler ops they consist of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import is_
from typing import TypeAlias

from wgcc.ir.graph import Builder, Graph, Node, Value
from wgcc.ir.loops import LoopNode, all_names, loop_of, map_bodies
from wgcc.ops import OPS, infer_types
from wgcc.ops.registry import Expand

LIKE_AN_OP = re.compile(rf"(^|\.)({'|'.join(OPS)})(_\d+)?$")


class Rewrite:
    """The new nodes (in `builder`), and which new value replaces an old one."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = builder_for(graph)
        self._stands_for: dict[str, Value] = {}

    def current(self, value: Value) -> Value:
        return self._stands_for.get(value.name, value)

    def current_node(self, node: Node) -> Node:
        """`node` with the current replacements of its inputs."""
        stands_for = self._stands_for
        for value in node.inputs:  # a loop, because this runs for every node of every pass
            if value.name in stands_for:
                return replace(node, inputs=tuple(map(self.current, node.inputs)))
        return node

    def keep(self, node: Node) -> None:
        self.builder.nodes.append(self.current_node(node))

    def put(self, old: Value, new: Value) -> None:
        """Use `new` from now on wherever `old` was used."""
        self._stands_for[old.name] = new

    def replace(self, old: Node, build: Callable[[], Sequence[Value] | None]) -> list[Node]:
        """Replace `old` by what `build` appends, under the old names; returns the new nodes.

        `old` is kept if it returns nothing.
        """
        start = len(self.builder.nodes)
        with self.builder.at(old.span, old.outputs[0].name):
            results = build()
        if results is None:
            self.keep(old)
            return [old]
        made = {value.name for node in self.builder.nodes[start:] for value in node.outputs}
        names: dict[str, Value] = {}
        for before, after in zip(old.outputs, results, strict=True):
            if after.name in made and after.name not in names:
                names[after.name] = before
            else:
                self.put(before, names.get(after.name, after))
        self.builder.nodes[start:] = [
            rename_values(node, names) for node in self.builder.nodes[start:]
        ]
        return self.builder.nodes[start:]

    def finish(self) -> Graph:
        """The new graph, or the old one where nothing was changed: so its facts stay known."""
        if not self._stands_for and are_same(self.builder.nodes, self.graph.nodes):
            return self.graph
        names = self._better_names()

        def final(value: Value) -> Value:
            current = self.current(value)
            return names.get(current.name, current)

        flag = self.graph.range_flag
        return replace(
            self.graph,
            nodes=tuple(rename_values(node, names) for node in self.builder.nodes),
            outputs={name: final(value) for name, value in self.graph.outputs.items()},
            writes={name: final(value) for name, value in self.graph.writes.items()},
            range_flag=final(flag) if flag else None,
        )

    def _better_names(self) -> dict[str, Value]:
        """A value named after its op that replaces one named by the user takes that name."""
        if not self._stands_for:
            return {}
        ops = {value.name: node.op for node in self.builder.nodes for value in node.outputs}
        names: dict[str, Value] = {}
        for old, new in self._stands_for.items():
            automatic = re.search(rf"(^|\.){ops.get(new.name, ' ')}(_\d+)?$", new.name)
            if automatic and not LIKE_AN_OP.search(old):
                names.setdefault(new.name, Value(old, new.type))
        return names


def are_same(new: Sequence[Node], old: Sequence[Node]) -> bool:
    """Are these the very same nodes? Comparing what they say would take longer."""
    return len(new) == len(old) and all(map(is_, new, old))


def builder_for(graph: Graph) -> Builder:
    """A builder whose new names differ from every name of `graph` and its bodies."""
    return Builder(infer_types, all_names(graph))


def rename_values(node: Node, names: Mapping[str, Value]) -> Node:
    """`node` with other values for those whose names are keys of `names`."""
    if not names or not any(value.name in names for value in (*node.inputs, *node.outputs)):
        return node
    return replace(
        node,
        inputs=tuple(names.get(value.name, value) for value in node.inputs),
        outputs=tuple(names.get(value.name, value) for value in node.outputs),
    )


def prune(graph: Graph) -> Graph:
    live = {value.name for value in graph.results}
    kept = []
    for node in reversed(graph.nodes):
        if any(value.name in live for value in node.outputs):
            loop = loop_of(node)
            kept.append(_narrow_loop(loop, live) if loop else node)
            live.update(value.name for value in kept[-1].inputs)
    kept.reverse()
    return graph if are_same(kept, graph.nodes) else replace(graph, nodes=tuple(kept))


def _narrow_loop(loop: LoopNode, live: Collection[str]) -> Node:
    """The loop with what its `live` outputs depend on; the node itself if that is all of it."""
    body = _live_body(loop, live)
    if body == loop.body:
        return loop.node
    carried, read = {v.name for v in body.state}, {v.name for v in body.inputs}
    outputs = (
        *(v for v, c in zip(loop.finals, loop.carries, strict=True) if c.name in carried),
        *(
            v
            for v, name in zip(loop.stacks, loop.body.outputs, strict=True)
            if name in body.outputs
        ),
    )
    inputs = (
        *(v for v, c in zip(loop.inits, loop.carries, strict=True) if c.name in carried),
        *(v for v, inner in (*loop.sliced, *loop.invariants) if inner.name in read),
    )
    attrs = {**loop.node.attrs, "body": body}
    return replace(loop.node, inputs=inputs, outputs=outputs, attrs=attrs)


def _live_body(loop: LoopNode, live: Collection[str]) -> Graph:
    """A carry is needed if its final value is, or if something needed reads it."""
    old = loop.body
    stacks = zip(loop.stacks, old.outputs.items(), strict=True)
    outputs = {name: value for stack, (name, value) in stacks if stack.name in live}
    needed = {c.name for v, c in zip(loop.finals, old.state, strict=True) if v.name in live}
    while True:
        writes = {name: value for name, value in old.writes.items() if name in needed}
        body = prune(replace(old, outputs=outputs, writes=writes))
        read = _read(body)
        more = needed | {value.name for value in old.state if value.name in read}
        if more == needed:
            break
        needed = more
    state = tuple(value for value in old.state if value.name in needed)
    inputs = tuple(value for value in old.inputs[1:] if value.name in read)
    return replace(body, inputs=(old.inputs[0], *inputs), state=state)


def _read(graph: Graph) -> set[str]:
    nodes = (value.name for node in graph.nodes for value in node.inputs)
    return {*nodes, *(value.name for value in graph.results)}


# Builds the values of a node from simpler ops.
Parts: TypeAlias = Callable[[Builder, Node], Sequence[Value]]


def composite(node: Node) -> Parts | None:
    lower = OPS[node.op].lower
    return lower.rule if isinstance(lower, Expand) else None


def without_marks(graph: Graph, *ops: str) -> Graph:
    """The graph without nodes of these ops, also in bodies: their operand is used instead."""
    rewrite = Rewrite(graph)
    for node in graph.nodes:
        if node.op in ops:
            rewrite.put(node.output, rewrite.current(node.inputs[0]))
        else:
            rewrite.keep(node)
    return map_bodies(rewrite.finish(), lambda body: without_marks(body, *ops))


def expand(graph: Graph, parts_of: Callable[[Node], Parts | None] = composite) -> Graph:
    """`parts_of` says of what a node consists; None keeps it."""
    rewrite = Rewrite(graph)
    for node in graph.nodes:
        _write_out(rewrite, node, parts_of)
    return map_bodies(rewrite.finish(), partial(expand, parts_of=parts_of))


def _write_out(rewrite: Rewrite, old: Node, parts_of: Callable[[Node], Parts | None]) -> None:
    """A composite may consist of composites, so the result of its rule is expanded, too."""
    node = rewrite.current_node(old)
    rule = parts_of(node)
    if rule is None:
        rewrite.keep(node)
        return
    made = rewrite.replace(node, lambda: rule(rewrite.builder, node))
    if made:
        del rewrite.builder.nodes[-len(made) :]
    for inner in made:
        _write_out(rewrite, inner, parts_of)
