"""The loop that computes the gradient of a loop: its body, from nodes that differentiate a round.

Values of the forward rounds that it reads are slices of stacks, or computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Constant, Graph, Node, Value
from wgcc.ir.loops import stacked, with_fresh_names
from wgcc.passes.forward_rounds import ForwardRounds
from wgcc.passes.residuals import choose_residuals


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
        """What the body sees of a stack outside."""
        type_ = replace(outer.type, shape=outer.shape[1:])
        self.sliced.append((outer, Value(self.b.fresh(name), type_)))
        return self.sliced[-1][1]

    def stack(self, value: Value) -> Value:
        """All rounds of a value, outside."""
        for known, whole in self.outputs:
            if known.name == value.name:
                return whole
        rounds = self.forward.loop.rounds
        whole = Value(self.b.fresh(f"{value.name}.all"), stacked(value.type, rounds))
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
        copies = [self._copied(node) for node in again]
        body = self._body(index, (*copies, *(self._renamed(node) for node in nodes)))
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
        for outer, inner in self.forward.loop.captured:
            self._names[inner.name] = Value(self.b.fresh(inner.name), inner.type)
            self.captured.append((outer, self._names[inner.name]))
        for constant in self.forward.loop.body.constants:
            own = Value(self.b.fresh(constant.value.name), constant.value.type)
            self._names[constant.value.name] = own
            self.constants.append(replace(constant, value=own))

    def _again(self, needed: Sequence[Value]) -> list[Node]:
        """The nodes of the forward round that are computed again."""
        missing = {value.name for value in needed if value.name not in self._names}
        found = []
        for node in reversed(self.forward.nodes):
            if any(value.name in missing for value in node.outputs):
                found.append(node)
                missing.update(v.name for v in node.inputs if v.name not in self._names)
        return found[::-1]

    def _copied(self, node: Node) -> Node:
        """Outputs that are stacked are read from there; the copy has them, too, unused."""
        inputs = self._renamed(node).inputs
        outputs = tuple(Value(self.b.fresh(f"{v.name}.again"), v.type) for v in node.outputs)
        for value, again in zip(node.outputs, outputs, strict=True):
            self._names.setdefault(value.name, again)
        return with_fresh_names(replace(node, inputs=inputs, outputs=outputs), self.b.fresh)

    def _renamed(self, node: Node) -> Node:
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
