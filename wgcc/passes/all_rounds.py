"""Values of a loop's rounds, outside the loop: computed there from others, or stacked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, Value
from wgcc.passes.forward_rounds import ForwardRounds
from wgcc.passes.lift import Lifted, can_lift, lift
from wgcc.passes.residuals import is_cheap


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
        for outer, inner in self.forward.loop.captured:
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
