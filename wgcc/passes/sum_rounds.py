"""Sums over the rounds of a loop, for gradients of what all rounds read.

Such a sum is not added up round by round where another way needs less memory traffic. Both factors
of a product are stacked, and one product over all rounds follows the loop; sums over axes are sums
over stacks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, Value
from wgcc.ops.formula import Term
from wgcc.passes.forward_rounds import ForwardRounds
from wgcc.passes.lift import Lifted, can_lift, lift, spread
from wgcc.passes.rematerialise import RECOMPUTE
from wgcc.passes.residuals import is_cheap

# Stacks of at most so many elements are summed behind the loop; more are added up in it.
FEW = 2**16


@dataclass(slots=True)
class SumRounds:
    """Builds sums in `b`, of values that the nodes of a round (`made`, by name) compute.

    `stack` gives all rounds of a value of the gradient's loop (`is_stacked`: it has them anyway),
    `add_up` the sum that it carries.
    """

    b: Builder
    forward: ForwardRounds
    made: dict[str, Node]
    is_forward: Callable[[Value], bool]
    is_stacked: Callable[[Value], bool]
    stack: Callable[[Value], Value]
    add_up: Callable[[Value], Value]
    _outside: dict[str, Lifted] = field(default_factory=dict)
    _totals: dict[str, Term] = field(default_factory=dict)
    _costs: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for outer, inner in self.forward.loop.captured:
            self._outside[inner.name] = Lifted(outer, stacked=False)

    def total(self, value: Value) -> Value:
        return self._total(value).value

    def _total(self, value: Value) -> Term:
        if value.name not in self._totals:
            self._totals[value.name] = self._sum(value)
        return self._totals[value.name]

    def _sum(self, value: Value) -> Term:
        node = self.made.get(value.name)
        if self._is_invariant(value):
            return Term(self.b, self._all_rounds(value).value) * self.forward.loop.rounds
        if node and node.op in STACKING and self.forward.loop.node.attrs.get(RECOMPUTE, 0) > 1:
            return Term(self.b, self.add_up(value))
        rule = RULES.get(node.op) if node else None
        found = rule(self, node) if rule and node else None
        if found is not None:
            return found
        if value.type.size * self.forward.loop.rounds <= FEW or self.is_forward(value):
            return self._stacked(value).sum((0,))
        return Term(self.b, self.add_up(value))

    def _stacked(self, value: Value) -> Term:
        return spread(self.b, self._all_rounds(value), self.forward.loop.rounds)

    def _all_rounds(self, value: Value) -> Lifted:
        """The value outside the loop: computed there, if its operands need no larger stacks."""
        if value.name in self._outside:
            return self._outside[value.name]
        node = self.made.get(value.name)
        if node and self._is_lifted(node):
            operands = [self._all_rounds(operand) for operand in node.inputs]
            made = lift(self.b, node, operands, self.forward.loop.rounds)
            self._outside.update(zip((v.name for v in node.outputs), made, strict=True))
        else:
            stack = self.forward.stack if self.is_forward(value) else self.stack
            self._outside[value.name] = Lifted(stack(value), stacked=True)
        return self._outside[value.name]

    def _is_lifted(self, node: Node) -> bool:
        operands = node.inputs
        stacked = [not self._is_invariant(operand) for operand in operands]
        if not can_lift(node, stacked):
            return False
        if not any(stacked):
            return True
        if self._has_stack(node.outputs[0]):
            return False
        return is_cheap(node) and sum(map(self._cost, operands)) <= node.output.type.size

    def _cost(self, value: Value) -> int:
        """How many elements of each round must be stacked to have this value outside."""
        if value.name in self._outside or self._has_stack(value):
            return 0
        if value.name not in self._costs:
            node = self.made.get(value.name)
            lifted = node is not None and self._is_lifted(node)
            own = sum(map(self._cost, node.inputs)) if node and lifted else value.type.size
            self._costs[value.name] = own
        return self._costs[value.name]

    def _has_stack(self, value: Value) -> bool:
        return value.name in self.forward.stacks or self.is_stacked(value)

    def _is_invariant(self, value: Value) -> bool:
        """Whether it is the same in all rounds."""
        if value.name in self._outside:
            return not self._outside[value.name].stacked
        node = self.made.get(value.name)
        return (
            node is not None
            and can_lift(node, [False])
            and all(self._is_invariant(operand) for operand in node.inputs)
        )

    def linear(self, node: Node) -> Term:
        """Rules for ops that are linear in all operands together."""
        first, *others = (self._total(operand) for operand in node.inputs)
        return first.apply(node.op, *others, **node.attrs)

    def scaled(self, node: Node) -> Term | None:
        """Products and quotients with what is the same in all rounds."""
        left, right = node.inputs
        if self._is_invariant(right):
            return self._total(left).apply(node.op, Term(self.b, self._all_rounds(right).value))
        if self._is_invariant(left) and node.op != "div":
            return Term(self.b, self._all_rounds(left).value).apply(node.op, self._total(right))
        return None

    def product(self, node: Node) -> Term:
        """Σ a[t] @ b[t] is one product, whose inner axis is longer."""
        if (found := self.scaled(node)) is not None:
            return found
        left, right = (self._stacked(operand) for operand in node.inputs)
        last = left.shape[-1] * self.forward.loop.rounds
        if len(left.shape) == 3:
            rows = left.apply("transpose", perm=(1, 0, 2)).reshape((left.shape[1], last))
            return rows.apply("matmul", right.reshape((last, right.shape[-1])))
        rows = left.apply("transpose", perm=(1, 2, 0, 3)).reshape((*left.shape[1:3], last))
        columns = right.apply("transpose", perm=(1, 0, 2, 3))
        return rows.apply("matmul", columns.reshape((right.shape[1], last, right.shape[-1])))

    def reduced(self, node: Node) -> Term:
        axes = (0, *(axis + 1 for axis in node.attrs["axes"]))
        return self._stacked(node.inputs[0]).sum(axes)

    def looked_up(self, node: Node) -> Term:
        g, ids = (self._stacked(operand) for operand in node.inputs)
        return g.apply(node.op, ids, **node.attrs)


# What is one node behind the loop needs stacks of its operands.
STACKING = ("matmul", "sum", "gather_grad")
RULES: dict[str, Callable[[SumRounds, Node], Term | None]] = {
    "add": SumRounds.linear,
    "sub": SumRounds.linear,
    "neg": SumRounds.linear,
    "reshape": SumRounds.linear,
    "transpose": SumRounds.linear,
    "broadcast": SumRounds.linear,
    "slice": SumRounds.linear,
    "unslice": SumRounds.linear,
    "mul": SumRounds.scaled,
    "div": SumRounds.scaled,
    "matmul": SumRounds.product,
    "sum": SumRounds.reduced,
    "gather_grad": SumRounds.looked_up,
}
