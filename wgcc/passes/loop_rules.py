"""Simpler forms of loops: what they need not carry, read or stack."""

from __future__ import annotations

from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.loops import loop_of, unique_names
from wgcc.passes.known_values import Known, filled
from wgcc.passes.loop_parts import LoopParts, take_apart
from wgcc.passes.rewrite import Rewrite, renamed


def simplify_loops(graph: Graph) -> Graph:
    if not any(loop_of(node) for node in graph.nodes):
        return graph
    rewrite, known = Rewrite(graph), Known()
    for old in graph.nodes:
        node = rewrite.updated(old)
        if loop_of(node):
            _Simpler(rewrite, known, take_apart(node)).run()
        else:
            rewrite.keep(node)
            known.note([node])
    return unique_names(rewrite.finish())


class _Simpler:
    def __init__(self, rewrite: Rewrite, known: Known, parts: LoopParts) -> None:
        self.rewrite, self.known, self.parts = rewrite, known, parts
        self.inner = rewrite.builder.inner()
        self.names: dict[str, Value] = {}

    def run(self) -> None:
        self._capture_constant_carries()
        self.parts.sliced = self._without_numbers(self.parts.sliced)
        self.parts.captured = self._without_numbers(self.parts.captured)
        self._capture_repeated_slices()
        self._count_with_the_index()
        self.parts.sliced = self._once(self.parts.sliced)
        self.parts.captured = self._once(self.parts.captured)
        self._rename()
        self._drop_outputs()
        loop = self.parts.whole()
        if loop is not None:
            self.rewrite.builder.nodes.append(loop)

    def _capture_constant_carries(self) -> None:
        """A carry that no round changes is the same for all."""
        kept = []
        for init, carry, after, last in self.parts.carries:
            if after == carry:
                self.parts.captured.append((init, carry))
                self.rewrite.put(last, init)
            else:
                kept.append((init, carry, after, last))
        self.parts.carries = kept

    def _capture_repeated_slices(self) -> None:
        """A slice of what was broadcast along the rounds is what was broadcast."""
        kept = []
        for x, inner in self.parts.sliced:
            node = self.known.producer(x, "broadcast")
            source = node.inputs[0] if node else x
            if node is None or (source.type.rank == x.type.rank and source.shape[0] > 1):
                kept.append((x, inner))
                continue
            if source.type.rank == x.type.rank:
                b = self.rewrite.builder
                source = b.apply("reshape", source, shape=source.shape[1:])
                self.known.note(b.nodes[-1:])
            own = Value(self.inner.fresh(inner.name), source.type)
            self.parts.captured.append((source, own))
            spread = self.inner.apply("broadcast", own, shape=inner.shape)
            self.names[inner.name] = spread if own.shape != inner.shape else own
        self.parts.sliced = kept

    def _count_with_the_index(self) -> None:
        """A slice of 0, 1, 2, … is the index."""
        kept = []
        for x, inner in self.parts.sliced:
            if self.known.producer(x, "iota"):
                index = self.parts.loop.index
                self.names[inner.name] = (
                    index
                    if inner.dtype == index.dtype
                    else self.inner.apply("cast", index, dtype=inner.dtype)
                )
            else:
                kept.append((x, inner))
        self.parts.sliced = kept

    def _without_numbers(self, pairs: list[tuple[Value, Value]]) -> list[tuple[Value, Value]]:
        """Numbers that are known are not read from outside."""
        kept = []
        for outer, inner in pairs:
            number = self.known.number(outer)
            if number is None:
                kept.append((outer, inner))
            else:
                self.names[inner.name] = filled(self.inner, number, inner)
        return kept

    def _once(self, pairs: list[tuple[Value, Value]]) -> list[tuple[Value, Value]]:
        """Each value outside has one name inside."""
        first: dict[str, Value] = {}
        for outer, inner in pairs:
            if first.setdefault(outer.name, inner) != inner:
                self.names[inner.name] = first[outer.name]
        return [(outer, inner) for outer, inner in pairs if first[outer.name] == inner]

    def _rename(self) -> None:
        nodes = [*self.inner.nodes, *self.parts.nodes]
        self.parts.nodes = [_with_inputs(node, self.names) for node in nodes]
        self.parts.carries = [
            (init, carry, self._new(after), last) for init, carry, after, last in self.parts.carries
        ]
        self.parts.outputs = {
            name: (self._new(value), stack) for name, (value, stack) in self.parts.outputs.items()
        }

    def _new(self, value: Value) -> Value:
        while value.name in self.names:
            value = self.names[value.name]
        return value

    def _drop_outputs(self) -> None:
        """Stacks of what is outside anyway, or stacked twice."""
        slices = {inner.name: x for x, inner in self.parts.sliced}
        captured = {inner.name: outer for outer, inner in self.parts.captured}
        wholes: dict[str, Value] = {}
        for name, (value, stack) in list(self.parts.outputs.items()):
            if value.name in slices:
                found = slices[value.name]
            elif value.name in captured:
                found = self._broadcast(captured[value.name], stack)
            else:
                found = wholes.setdefault(value.name, stack)
            if found != stack:
                self.rewrite.put(stack, found)
                del self.parts.outputs[name]

    def _broadcast(self, value: Value, stack: Value) -> Value:
        return self.rewrite.builder.apply("broadcast", value, shape=stack.shape)


def _with_inputs(node: Node, names: dict[str, Value]) -> Node:
    while any(value.name in names for value in node.inputs):
        node = renamed(node, names)
    return node
