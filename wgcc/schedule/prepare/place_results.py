"""Give every result of a graph a value of its own, so that it can be put in its place directly."""

from __future__ import annotations

from dataclasses import replace

from wgcc.ir.graph import Graph, Node, Value
from wgcc.ops.registry import Join, Source
from wgcc.passes.rewrite import builder_for
from wgcc.schedule.dataflow import lowering, moves
from wgcc.schedule.updates import is_update, lists_of


def place_results(graph: Graph) -> Graph:
    """Copy what has no place of its own: sources, views, and values wanted in two places."""
    return _Placer(graph).run()


class _Placer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = builder_for(graph)
        self.made = {value.name: node for node in graph.nodes for value in node.outputs}
        self.taken: set[str] = set()
        self.first: dict[str, Value] = {}
        results = (*graph.writes.items(), *graph.outputs.items())
        self.wanted = {value.name: name for name, value in results}
        self.joined: dict[str, Value] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            self.builder.nodes.append(self._with_gradients(self._with_joined(node)))
            if isinstance(lowering(node), Join) and node.output.name in self.wanted:
                copy = self._own(node.output, self.wanted[node.output.name])
                self.joined[node.output.name] = copy
        writes = {t: self._written(t, value) for t, value in self.graph.writes.items()}
        outputs = {name: self._own(value, name) for name, value in self.graph.outputs.items()}
        guard = self.graph.range_guard
        if guard:
            guard = replace(guard, flag=self._own(guard.flag, guard.flag.name))
        nodes = tuple(self.builder.nodes)
        return replace(self.graph, nodes=nodes, outputs=outputs, writes=writes, range_guard=guard)

    def _with_joined(self, node: Node) -> Node:
        """What is joined and a result is read from the result's place."""
        if not any(value.name in self.joined for value in node.inputs):
            return node
        return replace(node, inputs=tuple(self.joined.get(v.name, v) for v in node.inputs))

    def _with_gradients(self, node: Node) -> Node:
        """Gradients go to their arena; what comes from another update is in one already."""
        if node.op == "flat":
            return replace(node, inputs=tuple(self._gradient(v) for v in node.inputs))
        if not is_update(node):
            return node
        lists = lists_of(node)
        gradients = {
            v.name: self.first.pop(v.name) if v.name in self.first else self._own(v, v.name)
            for v in lists.get("g", ())
            if not self._is_updated(v)
        }
        return replace(node, inputs=tuple(gradients.get(v.name, v) for v in node.inputs))

    def _gradient(self, value: Value) -> Value:
        """Where an arena is read as a whole before its update: what the update will use, too."""
        if self._is_updated(value):
            return value
        if value.name not in self.first:
            self.first[value.name] = self._own(value, value.name)
        return self.first[value.name]

    def _written(self, target: str, value: Value) -> Value:
        return value if self._is_updated(value) else self._own(value, target)

    def _is_updated(self, value: Value) -> bool:
        return value.name in self.made and is_update(self.made[value.name])

    def _own(self, value: Value, name: str) -> Value:
        if value.name in self.joined and value.name not in self.taken:
            self.taken.add(value.name)
            return self.joined[value.name]
        node = self.made.get(value.name)
        fixed = node is None or moves(node) or is_update(node)
        if fixed or isinstance(lowering(node), Source) or value.name in self.taken:  # type: ignore[arg-type]
            with self.builder.at(node.span if node else None, name):
                return self.builder.apply("copy", value, name=f"{name}.copy")
        self.taken.add(value.name)
        return value
