"""What the gradient of a loop reads of the loop's rounds: stacks that the loop has, and more."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, Value
from wgcc.ir.loops import Loop, fresh_name, stacked
from wgcc.ops.formula import Term


@dataclass(slots=True)
class ForwardRounds:
    """`stacks` has, by the name of a value in the body, the value outside that has all rounds.

    `nodes` are those of the body. Those of inner loops have more stacks there than in `loop`.
    """

    b: Builder
    loop: Loop
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
            whole = Value(self.b.fresh(f"{value.name}.all"), stacked(value.type, self.loop.rounds))
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
