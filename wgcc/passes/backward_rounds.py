"""The loop that computes the gradient of a loop: its body, from nodes that differentiate a round.

Values of the forward rounds that it reads are slices of stacks, or computed again.

Sums over the rounds of a loop, for gradients of what all rounds read.

Such a sum is not added up round by round where another way needs less memory traffic. Both factors
of a product are stacked, and one product over all rounds follows the loop; sums over axes are sums
over stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from wgcc.ir.graph import Builder, Constant, Graph, Node, Value
from wgcc.ir.loops import LoopNode, stack_type, with_fresh_names
from wgcc.ops.formula import Term
from wgcc.passes.lift import spread
from wgcc.passes.loop_rounds import AllRounds, ForwardRounds, choose_residuals
from wgcc.passes.rematerialise import RECOMPUTE


@dataclass(slots=True)
class BackwardRounds:
    """The loop under construction: nodes are in `inner`, those of the forward round first.

    `carries`: a value in the body, its start outside, its next value, and its last value outside.
    `outputs`: a value of a round, and its stack outside. `sliced`: a value outside, and its slice.
    """

    b: Builder
    inner: Builder
    forward: ForwardRounds
    carries: list[tuple[Value, Value, Value, Value]] = field(default_factory=list)
    outputs: list[tuple[Value, Value]] = field(default_factory=list)
    sliced: list[tuple[Value, Value]] = field(default_factory=list)
    captured: list[tuple[Value, Value]] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    _names: dict[str, Value] = field(default_factory=dict)

    def slice(self, outer: Value, name: str) -> Value:
        """A value of the body: the current round's slice of a stack outside."""
        type_ = replace(outer.type, shape=outer.shape[1:])
        self.sliced.append((outer, Value(self.b.fresh(name), type_)))
        return self.sliced[-1][1]

    def stack(self, value: Value) -> Value:
        """All rounds of a value, outside."""
        for known, whole in self.outputs:
            if known.name == value.name:
                return whole
        rounds = self.forward.loop.rounds
        whole = Value(self.b.fresh(f"{value.name}.all"), stack_type(value.type, rounds))
        self.outputs.append((value, whole))
        return whole

    def has_stack(self, value: Value) -> bool:
        return any(known.name == value.name for known, _ in self.outputs)

    def carry(self, start: Value, now: Value, after: Value) -> Value:
        """Carry `after` to the next round as `now`; the value outside after the last round."""
        last = Value(self.b.fresh(f"{after.name}.last"), now.type)
        self.carries.append((now, start, after, last))
        return last

    def add_up(self, value: Value) -> Value:
        """The sum over all rounds, as a carry."""
        start = self.b.zeros(value)
        now = Value(self.b.fresh(f"{value.name}.sum"), value.type)
        return self.carry(start, now, self.inner.apply("add", now, value))

    def finish(self) -> Node:
        """Append the loop, and replace the forward loop by one with the stacks that it reads."""
        nodes = self._live_nodes()
        needed = self._read_of_forward(nodes)
        self._stack_residuals(needed)
        self._name_sources()
        again = self._again(needed)
        index = Value(self.b.fresh(self.forward.loop.index.name), self.forward.loop.index.type)
        self._names[self.forward.loop.index.name] = index
        copies = [self._copy(node) for node in again]
        body = self._body(index, (*copies, *(self._rename(node) for node in nodes)))
        return self._loop(body)

    def _live_nodes(self) -> list[Node]:
        """The nodes behind those of the forward round that the results depend on."""
        live = {value.name for value in self._results()}
        kept = []
        for node in reversed(self.inner.nodes[len(self.forward.nodes) :]):
            if any(value.name in live for value in node.outputs):
                kept.append(node)
                live.update(value.name for value in node.inputs)
        return kept[::-1]

    def _results(self) -> list[Value]:
        return [after for _, _, after, _ in self.carries] + [value for value, _ in self.outputs]

    def _read_of_forward(self, nodes: Sequence[Node]) -> list[Value]:
        own = {value.name for node in nodes for value in node.outputs}
        own |= {inner.name for _, inner in self.sliced} | {now.name for now, *_ in self.carries}
        read = (*(value for node in nodes for value in node.inputs), *self._results())
        return [value for value in dict.fromkeys(read) if value.name not in own]

    def _stack_residuals(self, needed: Sequence[Value]) -> None:
        loop = self.forward.loop
        carried = {value.name for value in loop.carries}
        free = {value.name for value in loop.body.sources if value.name not in carried}
        chosen = choose_residuals(
            needed,
            self.forward.nodes,
            free | self.forward.stacks.keys(),
            bool(loop.node.attrs.get("recompute")),
        )
        for value in chosen:
            self.forward.stack(value)

    def _name_sources(self) -> None:
        """Names in this body for all that comes from outside."""
        for name, whole in self.forward.stacks.items():
            self._names[name] = self.slice(whole, name)
        for outer, inner in self.forward.loop.invariants:
            self._names[inner.name] = Value(self.b.fresh(inner.name), inner.type)
            self.captured.append((outer, self._names[inner.name]))
        for constant in self.forward.loop.body.constants:
            own = Value(self.b.fresh(constant.value.name), constant.value.type)
            self._names[constant.value.name] = own
            self.constants.append(replace(constant, value=own))

    def _again(self, needed: Sequence[Value]) -> list[Node]:
        """The nodes of the forward round that are computed again."""
        missing = {value.name for value in needed if value.name not in self._names}
        nodes = []
        for node in reversed(self.forward.nodes):
            if any(value.name in missing for value in node.outputs):
                nodes.append(node)
                missing.update(v.name for v in node.inputs if v.name not in self._names)
        return nodes[::-1]

    def _copy(self, node: Node) -> Node:
        """Outputs that are stacked are read from there; the copy has them, too, unused."""
        inputs = self._rename(node).inputs
        outputs = tuple(Value(self.b.fresh(f"{v.name}.again"), v.type) for v in node.outputs)
        for value, again in zip(node.outputs, outputs, strict=True):
            self._names.setdefault(value.name, again)
        return with_fresh_names(replace(node, inputs=inputs, outputs=outputs), self.b.fresh)

    def _rename(self, node: Node) -> Node:
        return replace(node, inputs=tuple(map(self._own, node.inputs)))

    def _own(self, value: Value) -> Value:
        return self._names.get(value.name, value)

    def _body(self, index: Value, nodes: Sequence[Node]) -> Graph:
        return Graph(
            "body",
            inputs=(index, *(inner for _, inner in (*self.sliced, *self.captured))),
            state=tuple(now for now, *_ in self.carries),
            nodes=tuple(nodes),
            outputs={value.name: self._own(value) for value, _ in self.outputs},
            writes={now.name: self._own(after) for now, _, after, _ in self.carries},
            constants=tuple(self.constants),
        )

    def _loop(self, body: Graph) -> Node:
        loop = self.forward.loop
        return Node(
            loop.node.op,
            (
                *(start for _, start, _, _ in self.carries),
                *(outer for outer, _ in (*self.sliced, *self.captured)),
            ),
            (*(last for *_, last in self.carries), *(whole for _, whole in self.outputs)),
            {**loop.node.attrs, "body": body, "reverse": not loop.reverse},
            loop.node.span,
        )


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
    def loop(self) -> LoopNode:
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
        waiting, terms = [value], []
        while waiting:
            one = waiting.pop()
            node = self.outside.made.get(one.name)
            if node and node.op == "add" and not self.outside.is_invariant(one):
                waiting += reversed(node.inputs)
            else:
                terms.append(one)
        return terms

    def _sum(self, value: Value) -> Term:
        node = self.outside.made.get(value.name)
        if self.outside.is_invariant(value):
            return Term(self.b, self.outside.of(value).value) * self.loop.rounds
        if node and node.op in STACKING and self.loop.node.attrs.get(RECOMPUTE, 0) > 1:
            return Term(self.b, self.add_up(value))
        rule = RULES.get(node.op) if node else None
        total = rule(self, node) if rule and node else None
        if total is not None:
            return total
        if value.type.size * self.loop.rounds <= FEW or self.outside.is_forward(value):
            return self._stack(value).sum((0,))
        return Term(self.b, self.add_up(value))

    def _stack(self, value: Value) -> Term:
        return spread(self.b, self.outside.of(value), self.loop.rounds)

    def linear(self, node: Node) -> Term:
        """Rules for ops that are linear in all operands together."""
        first, *others = (self._total(operand) for operand in node.inputs)
        return first.apply(node.op, *others, **node.attrs)

    def scaling(self, node: Node) -> Term | None:
        """The sum of products or quotients with an operand that is the same in all rounds."""
        left, right = node.inputs
        if self.outside.is_invariant(right):
            return self._total(left).apply(node.op, Term(self.b, self.outside.of(right).value))
        if self.outside.is_invariant(left) and node.op != "div":
            return Term(self.b, self.outside.of(left).value).apply(node.op, self._total(right))
        return None

    def product(self, node: Node) -> Term:
        """Σ a[t] @ b[t] is one product, whose inner axis is longer."""
        if (total := self.scaling(node)) is not None:
            return total
        left, right = (self._stack(operand) for operand in node.inputs)
        last = left.shape[-1] * self.loop.rounds
        if len(left.shape) == 3:
            rows = left.apply("transpose", perm=(1, 0, 2)).reshape((left.shape[1], last))
            return rows.apply("matmul", right.reshape((last, right.shape[-1])))
        rows = left.apply("transpose", perm=(1, 2, 0, 3)).reshape((*left.shape[1:3], last))
        columns = right.apply("transpose", perm=(1, 0, 2, 3))
        return rows.apply("matmul", columns.reshape((right.shape[1], last, right.shape[-1])))

    def reduction(self, node: Node) -> Term:
        axes = (0, *(axis + 1 for axis in node.attrs["axes"]))
        return self._stack(node.inputs[0]).sum(axes)

    def sums_by_id(self, node: Node) -> Term:
        g, ids = (self._stack(operand) for operand in node.inputs)
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
    "mul": SumRounds.scaling,
    "div": SumRounds.scaling,
    "matmul": SumRounds.product,
    "sum": SumRounds.reduction,
    "gather_grad": SumRounds.sums_by_id,
}
