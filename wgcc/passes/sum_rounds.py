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
from wgcc.ir.loops import Loop
from wgcc.ops.formula import Term
from wgcc.passes.all_rounds import AllRounds
from wgcc.passes.lift import spread
from wgcc.passes.rematerialise import RECOMPUTE

# Stacks of at most so many elements are summed behind the loop; more are added up in it.
FEW = 2**16


@dataclass(slots=True)
class SumRounds:
    """`outside` has values of all rounds; `add_up` gives a sum that the gradient's loop carries."""

    b: Builder
    outside: AllRounds
    add_up: Callable[[Value], Value]
    _totals: dict[str, Term] = field(default_factory=dict)

    @property
    def loop(self) -> Loop:
        return self.outside.forward.loop

    def total(self, value: Value) -> Value:
        return self._total(value).value

    def _total(self, value: Value) -> Term:
        """The terms of a long sum are added one by one, without recursion."""
        terms = self._terms(value)
        for term in terms:
            if term.name not in self._totals:
                self._totals[term.name] = self._sum(term)
        total = self._totals[terms[0].name]
        for term in terms[1:]:
            total = total + self._totals[term.name]
        return total

    def _terms(self, value: Value) -> list[Value]:
        waiting, found = [value], []
        while waiting:
            one = waiting.pop()
            node = self.outside.made.get(one.name)
            if node and node.op == "add" and not self.outside.is_invariant(one):
                waiting += reversed(node.inputs)
            else:
                found.append(one)
        return found

    def _sum(self, value: Value) -> Term:
        node = self.outside.made.get(value.name)
        if self.outside.is_invariant(value):
            return Term(self.b, self.outside.of(value).value) * self.loop.rounds
        if node and node.op in STACKING and self.loop.node.attrs.get(RECOMPUTE, 0) > 1:
            return Term(self.b, self.add_up(value))
        rule = RULES.get(node.op) if node else None
        found = rule(self, node) if rule and node else None
        if found is not None:
            return found
        if value.type.size * self.loop.rounds <= FEW or self.outside.is_forward(value):
            return self._stacked(value).sum((0,))
        return Term(self.b, self.add_up(value))

    def _stacked(self, value: Value) -> Term:
        return spread(self.b, self.outside.of(value), self.loop.rounds)

    def linear(self, node: Node) -> Term:
        """Rules for ops that are linear in all operands together."""
        first, *others = (self._total(operand) for operand in node.inputs)
        return first.apply(node.op, *others, **node.attrs)

    def scaled(self, node: Node) -> Term | None:
        """Products and quotients with what is the same in all rounds."""
        left, right = node.inputs
        if self.outside.is_invariant(right):
            return self._total(left).apply(node.op, Term(self.b, self.outside.of(right).value))
        if self.outside.is_invariant(left) and node.op != "div":
            return Term(self.b, self.outside.of(left).value).apply(node.op, self._total(right))
        return None

    def product(self, node: Node) -> Term:
        """Σ a[t] @ b[t] is one product, whose inner axis is longer."""
        if (found := self.scaled(node)) is not None:
            return found
        left, right = (self._stacked(operand) for operand in node.inputs)
        last = left.shape[-1] * self.loop.rounds
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
