"""Values of a loop's rounds, outside the loop: computed there from others, or stacked.

What the gradient of a loop reads of the loop's rounds: stacks that the loop has, and more.

Which values of a loop's rounds are stacked for its gradient: a minimum cut.

The gradient needs some values of each round. Each of them is stacked, or computed again from
others that are. The cheapest choice is a minimum cut between what can only be stacked and what is
needed, where cutting through a value costs as many elements as it has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from wgcc.ir.graph import Builder, Node, Value, producers_of
from wgcc.ir.loops import LoopNode, fresh_name, stack_type
from wgcc.ops import OPS
from wgcc.ops.formula import Term
from wgcc.ops.registry import FromIndex, Pointwise, View
from wgcc.passes.lift import Lifted, can_lift, lift


@dataclass(slots=True)
class AllRounds:
    """Builds in `b`, from what the `nodes` of a round compute (in order).

    `stack` gives all rounds of a value of the gradient's loop; `is_stacked`: it has them anyway.
    """

    b: Builder
    forward: ForwardRounds
    nodes: list[Node]
    is_forward: Callable[[Value], bool]
    is_stacked: Callable[[Value], bool]
    stack: Callable[[Value], Value]
    made: dict[str, Node] = field(default_factory=dict)
    _outside: dict[str, Lifted] = field(default_factory=dict)
    _invariant: set[str] = field(default_factory=set)
    _lifted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for outer, inner in self.forward.loop.invariants:
            self._outside[inner.name] = Lifted(outer, stacked=False)
            self._invariant.add(inner.name)
        costs = dict.fromkeys(self._invariant, 0)
        for node in self.nodes:
            self.made.update((value.name, node) for value in node.outputs)
            self._choose(node, costs)

    def is_invariant(self, value: Value) -> bool:
        """Whether it is the same in all rounds."""
        return value.name in self._invariant

    def of(self, value: Value) -> Lifted:
        """The value outside the loop: computed there, if its operands need no larger stacks."""
        if value.name not in self._outside:
            self._build(value)
        return self._outside[value.name]

    def _choose(self, node: Node, costs: dict[str, int]) -> None:
        """Whether `node` is computed outside. `costs` says how many elements of each round must be
        stacked to have a value there."""
        names = {value.name for value in node.outputs}
        differs = [not self.is_invariant(operand) for operand in node.inputs]
        more = sum(costs.get(v.name, self._stack_cost(v)) for v in dict.fromkeys(node.inputs))
        size = node.outputs[0].type.size
        if not can_lift(node, differs):
            return
        if not any(differs):
            self._invariant |= names
            self._lifted |= names
            costs.update(dict.fromkeys(names, 0))
        elif is_cheap(node) and more <= size and not self._has_stack(node.outputs[0]):
            self._lifted |= names
            costs[node.output.name] = more

    def _stack_cost(self, value: Value) -> int:
        return 0 if self._has_stack(value) else value.type.size

    def _has_stack(self, value: Value) -> bool:
        return value.name in self.forward.stacks or self.is_stacked(value)

    def _build(self, value: Value) -> None:
        """Compute what `value` needs outside, its operands first."""
        waiting = [value]
        while waiting:
            top = waiting[-1]
            missing = [v for v in self._operands(top) if v.name not in self._outside]
            if top.name in self._outside or not missing:
                waiting.pop()
                self._put(top)
            else:
                waiting += missing

    def _operands(self, value: Value) -> tuple[Value, ...]:
        return self.made[value.name].inputs if value.name in self._lifted else ()

    def _put(self, value: Value) -> None:
        if value.name in self._outside:
            return
        if value.name not in self._lifted:
            stack = self.forward.stack if self.is_forward(value) else self.stack
            self._outside[value.name] = Lifted(stack(value), stacked=True)
            return
        node = self.made[value.name]
        operands = [self._outside[operand.name] for operand in node.inputs]
        made = lift(self.b, node, operands, self.forward.loop.rounds)
        self._outside.update(zip((v.name for v in node.outputs), made, strict=True))


@dataclass(slots=True)
class ForwardRounds:
    """`stacks` has, by the name of a value in the body, the value outside that has all rounds.

    `nodes` are those of the body. Those of inner loops have more stacks there than in `loop`.
    """

    b: Builder
    loop: LoopNode
    nodes: tuple[Node, ...]
    stacks: dict[str, Value] = field(default_factory=dict)
    added: list[tuple[Value, Value]] = field(default_factory=list)

    def __post_init__(self) -> None:
        outputs = self.loop.body.outputs.values()
        self.stacks = {value.name: x for x, value in self.loop.sliced}
        for value, stack in zip(outputs, self.loop.stacks, strict=True):
            self.stacks.setdefault(value.name, stack)

    def stack(self, value: Value) -> Value:
        """All rounds of a value of the body, outside the loop."""
        if value.name not in self.stacks:
            whole = Value(
                self.b.fresh(f"{value.name}.all"), stack_type(value.type, self.loop.rounds)
            )
            self.stacks[value.name] = whole
            self.added.append((value, whole))
        return self.stacks[value.name]

    def finish(self) -> tuple[Node, list[Node]]:
        """The loop with the stacks that were asked for, and nodes that make the rest of them."""
        body = self.loop.body
        outputs, wholes = dict(body.outputs), list(self.loop.node.outputs)
        shifts = self.b.inner()
        for value, whole in self.added:
            after = body.writes.get(value.name)
            if after is not None and after.name in self.stacks and after.name not in body.writes:
                self._shift(shifts, value, self.stacks[after.name], whole)
                continue
            outputs[fresh_name(value.name, set(outputs))] = value
            wholes.append(whole)
        attrs = {**self.loop.node.attrs, "body": replace(body, nodes=self.nodes, outputs=outputs)}
        return replace(self.loop.node, outputs=tuple(wholes), attrs=attrs), shifts.nodes

    def _shift(self, b: Builder, carry: Value, after: Value, whole: Value) -> None:
        """A carry before each round is what it was after the round before, and first its start."""
        start = self.loop.inits[[value.name for value in self.loop.carries].index(carry.name)]
        first = Term(b, start).apply("reshape", shape=(1, *carry.shape))
        rounds, rest = self.loop.rounds, (0,) * carry.type.rank
        if rounds > 1:
            part = Term(b, after).apply(
                "slice",
                starts=(1 if self.loop.reverse else 0, *rest),
                sizes=(rounds - 1, *carry.shape),
                steps=(1,) * (1 + carry.type.rank),
            )
            parts = (part, first) if self.loop.reverse else (first, part)
            parts[0].apply("concat", parts[1], axis=0)
        b.nodes[-1] = replace(b.nodes[-1], outputs=(whole,))


UNLIMITED = 2**62
START, END = "start", "end"


def choose_residuals(
    needed: Iterable[Value],
    nodes: Iterable[Node],
    free: Collection[str],
    recompute: bool,
) -> list[Value]:
    """The values to stack, so that all of `needed` can be computed from them and `free` ones.

    `nodes` are those of the round. Only cheap nodes are computed again, or, to `recompute`, all.
    """
    made = producers_of(nodes)
    network = _Network()
    values: dict[str, Value] = {}
    waiting = [value for value in needed if value.name not in free]
    for value in waiting:
        network.add(_after(value), END, UNLIMITED)
    while waiting:
        value = waiting.pop()
        if value.name in values:
            continue
        values[value.name] = value
        network.add(_before(value), _after(value), value.type.size)
        node = made.get(value.name)
        if node is None or not (recompute or is_cheap(node)):
            network.add(START, _before(value), UNLIMITED)
            continue
        for operand in node.inputs:
            if operand.name not in free:
                network.add(_after(operand), _before(value), UNLIMITED)
                waiting.append(operand)
    reached = network.cut()
    return [v for v in values.values() if _before(v) in reached and _after(v) not in reached]


def is_cheap(node: Node) -> bool:
    """Whether it takes less to compute it again than to store it and load it."""
    lower = OPS[node.op].lower
    return isinstance(lower, View | FromIndex) or (isinstance(lower, Pointwise) and lower.cheap)


def _before(value: Value) -> str:
    return f"before {value.name}"


def _after(value: Value) -> str:
    return f"after {value.name}"


class _Network:
    """Capacities between places; `cut` sends as much as they allow along shortest paths."""

    def __init__(self) -> None:
        self.capacity: dict[str, dict[str, int]] = {START: {}, END: {}}

    def add(self, start: str, end: str, capacity: int) -> None:
        self.capacity.setdefault(start, {})[end] = capacity
        self.capacity.setdefault(end, {}).setdefault(start, 0)

    def cut(self) -> set[str]:
        """The places that can still be reached from the start when no more can be sent."""
        while END in (came_from := self._search()):
            path = [END]
            while path[-1] != START:
                path.append(came_from[path[-1]])
            steps = [*zip(path[1:], path, strict=False)]
            amount = min(self.capacity[start][end] for start, end in steps)
            for start, end in steps:
                self.capacity[start][end] -= amount
                self.capacity[end][start] += amount
        return set(came_from)

    def _search(self) -> Mapping[str, str]:
        """Breadth first: from where each place that can be reached is reached."""
        came_from, waiting = {START: START}, deque([START])
        while waiting:
            place = waiting.popleft()
            for other, left in self.capacity[place].items():
                if left > 0 and other not in came_from:
                    came_from[other] = place
                    waiting.append(other)
        return came_from
