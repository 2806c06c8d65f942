"""Simplifies a graph without changing what it computes: constant folding, simpler forms of nodes,
common-subexpression and dead-code elimination, until nothing changes.

Common-subexpression elimination: equal nodes are merged into the first of them.

Every op is a function of its inputs and attributes, also random draws, which have a site.

Simpler forms of loops: what they need not carry, read or stack.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from wgcc.ir.graph import Builder, Graph, Node, Value, keep_fact, once_per_graph
from wgcc.ir.loops import loop_of, map_bodies, unique_names
from wgcc.ops import OPS
from wgcc.passes.known_values import Known, Rule, fill, fold_numbers, fold_tensors
from wgcc.passes.loop_parts import LoopParts, take_apart
from wgcc.passes.rewrite import Rewrite, prune, rename_values
from wgcc.passes.simplify_rules import ARITHMETIC_RULES, VIEW_RULES


def cse(graph: Graph) -> Graph:
    rewrite = Rewrite(graph)
    first: dict[tuple[str, ...], tuple[Value, ...]] = {}
    for old in graph.nodes:
        node = rewrite.current_node(old)
        known = first.setdefault(_key(node), node.outputs)
        if known is node.outputs:
            rewrite.keep(node)
            continue
        for mine, shared in zip(node.outputs, known, strict=True):
            rewrite.put(mine, shared)
    return map_bodies(rewrite.finish(), cse)


def _key(node: Node) -> tuple[str, ...]:
    """Equal for two nodes only if they compute the same. Loops are never merged."""
    if "body" in node.attrs:
        return (node.op, node.outputs[0].name)
    names = [value.name for value in node.inputs]
    operands = sorted(names) if OPS[node.op].commutative else names
    return (node.op, *operands, _spelling(node.attrs))


def _spelling(value: Any) -> str:
    """Numbers differ by value and sign (0.0 is not -0.0), never by type (1 is 1.0)."""
    if isinstance(value, (bool, int, float)):
        return repr(float(value))
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{_spelling(value[key])}' for key in sorted(value))}}}"
    if isinstance(value, (tuple, list)):
        return f"({','.join(map(_spelling, value))})"
    return repr(value)


def simplify_loops(graph: Graph) -> Graph:
    if not any(loop_of(node) for node in graph.nodes):
        return graph
    rewrite, known = Rewrite(graph), Known()
    for old in graph.nodes:
        node = rewrite.current_node(old)
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
                self.names[inner.name] = fill(self.inner, number, inner)
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
                replacement = slices[value.name]
            elif value.name in captured:
                replacement = self._broadcast(captured[value.name], stack)
            else:
                replacement = wholes.setdefault(value.name, stack)
            if replacement != stack:
                self.rewrite.put(stack, replacement)
                del self.parts.outputs[name]

    def _broadcast(self, value: Value, stack: Value) -> Value:
        return self.rewrite.builder.apply("broadcast", value, shape=stack.shape)


def _with_inputs(node: Node, names: dict[str, Value]) -> Node:
    while any(value.name in names for value in node.inputs):
        node = rename_values(node, names)
    return node


RULES: dict[str, Rule] = {**ARITHMETIC_RULES, **VIEW_RULES}
# Each iteration shortens chains, and no rule makes one longer: only a safeguard.
MOST_ITERATIONS = 50


@once_per_graph
def simplify(graph: Graph) -> Graph:
    for _ in range(MOST_ITERATIONS):
        before = graph.nodes
        graph = map_bodies(simplify_loops(graph), simplify)
        graph = prune(cse(_apply_rules(graph)))
        if graph.nodes == before:
            break
    folded = prune(fold_tensors(graph))
    if folded is graph:
        # Nothing is left to do, whoever asks again.
        keep_fact(graph, simplify, graph)
    return folded


def _apply_rules(graph: Graph) -> Graph:
    rewrite, known = Rewrite(graph), Known()
    for old in graph.nodes:
        node = rewrite.current_node(old)
        known.note(rewrite.replace(node, partial(_simplest, rewrite.builder, known, node)))
    return rewrite.finish()


def _simplest(builder: Builder, known: Known, node: Node) -> list[Value] | None:
    """A simpler value that equals the output of `node`, if a rule knows one."""
    if len(node.outputs) != 1:
        return None
    replacement = fold_numbers(builder, known, node)
    if replacement is None and node.op in RULES:
        replacement = RULES[node.op](builder, known, node)
    return None if replacement is None else [replacement]
