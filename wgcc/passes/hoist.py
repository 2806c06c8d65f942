"""Takes work out of loops that one node can do for all rounds, before or behind the loop.

- Before: expensive nodes that depend on no carry, as the product of an input with a weight. The
  loop reads a slice of the result.
- Behind: products that no later round depends on, as the projection of each round's output. The
  loop stacks their operands.

It runs before gradients are built, so that those of such products are outside loops, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from wgcc.ir.graph import Builder, Graph, Node, Value, producers_of
from wgcc.ir.loops import LoopNode, loop_of, map_bodies, stack_type, unique_names, where_loops
from wgcc.ops import OPS
from wgcc.ops.markers import DIFFERENTIATING
from wgcc.ops.registry import Expand, FromIndex, Pointwise, Reduce, Special, View
from wgcc.passes.lift import Lifted, can_lift, lift, spread
from wgcc.passes.loop_parts import LoopParts, take_apart
from wgcc.passes.rematerialise import RECOMPUTE, without_loop_marks
from wgcc.passes.rewrite import Rewrite, prune

# What is worth moving behind a loop: one large product is faster than a small one in every round.
PRODUCTS = ("matmul", "conv")
# Operands of products are stacked instead of the products if they are not many more elements.
FEW = 2**20


def hoist(graph: Graph) -> Graph:
    """A loop that is to recompute products of its inputs (see `wgcc/ops/repeat.py`) keeps them."""
    return _hoist(graph, unless=2)


def hoist_from_gradients(graph: Graph) -> Graph:
    """The same for loops that compute gradients. One that recomputes anything to save memory stays
    as it is: outside, that would be computed, and stored, for all rounds at once."""
    return without_loop_marks(_hoist(graph, unless=1))


def _hoist(graph: Graph, unless: int) -> Graph:
    """Loops whose mark to recompute is `unless` or more stay as they are."""
    graph = map_bodies(graph, where_loops(partial(_hoist, unless=unless)))
    rewrite = Rewrite(graph)
    for old in graph.nodes:
        node = rewrite.current_node(old)
        loop = loop_of(node)
        if loop is None or node.attrs.get(RECOMPUTE, 0) >= unless or _differentiates(loop.body):
            rewrite.keep(node)
            continue
        before = _before(rewrite.builder, node)
        _Behind(rewrite, before).run()
    return prune(unique_names(rewrite.finish()))


def _differentiates(body: Graph) -> bool:
    """Gradients in a body follow its nodes: none may be taken out before they are computed."""
    return any(node.op in DIFFERENTIATING for node in body.nodes)


def _is_heavy(node: Node) -> bool:
    """Whether it is worth a node for all rounds: others are part of a kernel in any case."""
    return isinstance(OPS[node.op].lower, Special | Reduce | Expand)


def _before(b: Builder, node: Node) -> LoopParts:
    """The loop without what can be computed before it; that is appended to `b`."""
    parts, work = take_apart(node), _Before(b, LoopNode(node))
    for value in work.hoisted_values():
        lifted = work.outside(value)
        where = parts.sliced if lifted.stacked else parts.captured
        where.append((lifted.value, value))
        parts.nodes = [inner for inner in parts.nodes if value not in inner.outputs]
    return parts


class _Before:
    """`movable`: the values of a round that no carry is needed for, with whether they differ by
    round; those of `heavy` need an expensive node."""

    def __init__(self, b: Builder, loop: LoopNode) -> None:
        self.b, self.loop = b, loop
        self.made = loop.body.producers
        self.movable: dict[str, bool] = {loop.index.name: True}
        self.movable.update((inner.name, True) for _, inner in loop.sliced)
        self.movable.update((inner.name, False) for _, inner in loop.invariants)
        self.heavy: set[str] = set()
        for node in loop.body.nodes:
            self._note(node)
        self._outside: dict[str, Lifted] = {}
        for outer, inner in loop.sliced:
            self._outside[inner.name] = Lifted(outer, stacked=True)
        for outer, inner in loop.invariants:
            self._outside[inner.name] = Lifted(outer, stacked=False)

    def _note(self, node: Node) -> None:
        if not all(value.name in self.movable for value in node.inputs):
            return
        differs = [self.movable[value.name] for value in node.inputs]
        if not can_lift(node, differs) or len(node.outputs) > 1:
            return
        self.movable[node.output.name] = any(differs)
        if _is_heavy(node) or any(value.name in self.heavy for value in node.inputs):
            self.heavy.add(node.output.name)

    def hoisted_values(self) -> list[Value]:
        """The values that the loop reads instead: the last ones that need expensive nodes, but
        not views that repeat elements."""
        body = self.loop.body
        read = [v for n in body.nodes if n.outputs[0].name not in self.heavy for v in n.inputs]
        waiting, values = [*read, *body.results], dict[str, Value]()
        while waiting:
            value = waiting.pop()
            if value.name not in self.heavy or value.name in values:
                continue
            node = self.made[value.name]
            grows = any(operand.type.size < value.type.size for operand in node.inputs)
            if isinstance(OPS[node.op].lower, View) and grows:
                waiting += node.inputs
                continue
            values[value.name] = value
        order = {value.name: at for at, node in enumerate(body.nodes) for value in node.outputs}
        return sorted(values.values(), key=lambda value: order[value.name])

    def outside(self, value: Value) -> Lifted:
        """The value for all rounds, as nodes before the loop."""
        for node in self._cone(value):
            operands = [self._source(operand) for operand in node.inputs]
            made = lift(self.b, node, operands, self.loop.rounds)
            self._outside[node.output.name] = made[0]
        return self._outside[value.name]

    def _cone(self, value: Value) -> list[Node]:
        """The nodes that it needs and that are not outside yet, in order."""
        needed = {value.name}
        cone = []
        for node in reversed(self.loop.body.nodes):
            if node.outputs[0].name in needed and node.outputs[0].name not in self._outside:
                cone.append(node)
                needed.update(operand.name for operand in node.inputs)
        return cone[::-1]

    def _source(self, value: Value) -> Lifted:
        if value.name == self.loop.index.name and value.name not in self._outside:
            numbers = self.b.apply("iota", n=self.loop.rounds, dtype="u32")
            self._outside[value.name] = Lifted(numbers, stacked=True)
        return self._outside[value.name]


class _Behind:
    """Moves products behind the loop that only stacks depend on."""

    def __init__(self, rewrite: Rewrite, parts: LoopParts) -> None:
        self.rewrite, self.parts = rewrite, parts
        self.made = producers_of(parts.nodes)
        self.outer = {inner.name: Lifted(x, stacked=True) for x, inner in parts.sliced}
        self.outer.update(
            (inner.name, Lifted(value, stacked=False)) for value, inner in parts.captured
        )
        self.carried = self._needed_by_carries()

    def run(self) -> None:
        """Append the loop, and what is behind it."""
        cones = {
            name: cone
            for name, (value, _) in self.parts.outputs.items()
            if (cone := self._cone(value)) and self._is_worth(value, cone)
        }
        moved = {name: self.parts.outputs.pop(name) for name in cones}
        for value, stack in self.parts.outputs.values():
            self.outer.setdefault(value.name, Lifted(stack, stacked=True))
        for cone in cones.values():
            for value in self._operands(cone):
                self._stack(value)
        loop = self.parts.whole()
        assert loop is not None
        self.rewrite.builder.nodes.append(loop)
        for name, (value, stack) in moved.items():
            self._build(cones[name], value, stack)

    def _needed_by_carries(self) -> set[str]:
        needed = {after.name for _, _, after, _ in self.parts.carries}
        for node in reversed(self.parts.nodes):
            if any(value.name in needed for value in node.outputs):
                needed.update(value.name for value in node.inputs)
        return needed

    def _cone(self, value: Value) -> list[Node]:
        """The nodes behind the loop that `value` would need: back to its products."""
        cone: list[Node] = []
        needed = {value.name}
        for node in reversed(self.parts.nodes):
            if node.outputs[0].name in needed and self._can_move(node):
                cone.append(node)
                if not isinstance(OPS[node.op].lower, Special):
                    needed.update(operand.name for operand in node.inputs)
        return cone[::-1]

    def _can_move(self, node: Node) -> bool:
        lower = OPS[node.op].lower
        kind = isinstance(lower, View | Pointwise | FromIndex) or node.op in PRODUCTS
        free = not any(value.name in self.carried for value in node.outputs)
        return kind and free and can_lift(node, [not self._is_same(v) for v in node.inputs])

    def _is_same(self, value: Value) -> bool:
        """Whether all rounds have the same, as captured values."""
        return value.name in self.outer and not self.outer[value.name].stacked

    def _is_worth(self, value: Value, cone: Sequence[Node]) -> bool:
        if not any(node.op in PRODUCTS for node in cone) or cone[-1].output != value:
            return False
        more = sum(v.type.size for v in self._operands(cone) if v.name not in self.outer)
        return more <= 2 * value.type.size or more * self.parts.loop.rounds <= FEW

    def _operands(self, cone: Sequence[Node]) -> list[Value]:
        inside = {value.name for node in cone for value in node.outputs}
        read = dict.fromkeys(value for node in cone for value in node.inputs)
        return [value for value in read if value.name not in inside]

    def _stack(self, value: Value) -> None:
        if value.name in self.outer:
            return
        b = self.rewrite.builder
        whole = Value(b.fresh(f"{value.name}.all"), stack_type(value.type, self.parts.loop.rounds))
        self.parts.add_output(value, whole)
        self.outer[value.name] = Lifted(whole, stacked=True)

    def _build(self, cone: Sequence[Node], value: Value, stack: Value) -> None:
        b, known = self.rewrite.builder, dict(self.outer)
        for node in cone:
            operands = [known[operand.name] for operand in node.inputs]
            known[node.output.name] = lift(b, node, operands, self.parts.loop.rounds)[0]
        new_stack = spread(b, known[value.name], self.parts.loop.rounds).value
        if b.nodes[-1].outputs == (new_stack,):
            b.nodes[-1] = replace(b.nodes[-1], outputs=(stack,))
        else:
            self.rewrite.put(stack, new_stack)
