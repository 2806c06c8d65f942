"""Rebuilds a graph node by node: the loop that most passes share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import is_

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.loops import all_names
from wgcc.ops import OPS, infer_types

LIKE_AN_OP = re.compile(rf"(^|\.)({'|'.join(OPS)})(_\d+)?$")


class Rewrite:
    """The new nodes (in `builder`), and which new value replaces an old one."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = builder_for(graph)
        self._stands_for: dict[str, Value] = {}

    def current(self, value: Value) -> Value:
        return self._stands_for.get(value.name, value)

    def updated(self, node: Node) -> Node:
        """`node` with the current replacements of its inputs."""
        stands_for = self._stands_for
        for value in node.inputs:  # a loop, because this runs for every node of every pass
            if value.name in stands_for:
                return replace(node, inputs=tuple(map(self.current, node.inputs)))
        return node

    def keep(self, node: Node) -> None:
        self.builder.nodes.append(self.updated(node))

    def put(self, old: Value, new: Value) -> None:
        """From now on `new` is used wherever `old` was."""
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
        self.builder.nodes[start:] = [renamed(node, names) for node in self.builder.nodes[start:]]
        return self.builder.nodes[start:]

    def finish(self) -> Graph:
        """The new graph, or the old one where nothing was changed: so its facts stay known."""
        if not self._stands_for and are_same(self.builder.nodes, self.graph.nodes):
            return self.graph
        names = self._better_names()

        def final(value: Value) -> Value:
            current = self.current(value)
            return names.get(current.name, current)

        guard = self.graph.range_guard
        return replace(
            self.graph,
            nodes=tuple(renamed(node, names) for node in self.builder.nodes),
            outputs={name: final(value) for name, value in self.graph.outputs.items()},
            writes={name: final(value) for name, value in self.graph.writes.items()},
            range_guard=guard and replace(guard, flag=final(guard.flag)),
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


def renamed(node: Node, names: Mapping[str, Value]) -> Node:
    """`node` with other values for those whose names are keys of `names`."""
    if not names or not any(value.name in names for value in (*node.inputs, *node.outputs)):
        return node
    return replace(
        node,
        inputs=tuple(names.get(value.name, value) for value in node.inputs),
        outputs=tuple(names.get(value.name, value) for value in node.outputs),
    )
