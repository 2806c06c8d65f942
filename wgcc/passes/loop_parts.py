"""A loop taken apart, so that a pass can add and remove what it carries, reads and stacks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wgcc.ir.graph import Node, Value
from wgcc.ir.loops import LoopNode, fresh_name


@dataclass(slots=True)
class LoopParts:
    """`loop` is what it was; pairs have the value outside first.

    - `carries`: initial value, carry, next value, value after the last round
    - `outputs`: by name, the value of a round and its stack
    """

    loop: LoopNode
    carries: list[tuple[Value, Value, Value, Value]]
    sliced: list[tuple[Value, Value]]
    captured: list[tuple[Value, Value]]
    outputs: dict[str, tuple[Value, Value]]
    nodes: list[Node]

    def add_output(self, value: Value, stack: Value) -> None:
        self.outputs[fresh_name(value.name, set(self.outputs))] = (value, stack)

    def whole(self) -> Node | None:
        """The loop; None if nothing is left of it."""
        if not self.carries and not self.outputs:
            return None
        reads = (*self.sliced, *self.captured)
        body = replace(
            self.loop.body,
            inputs=(self.loop.index, *(inner for _, inner in reads)),
            state=tuple(carry for _, carry, _, _ in self.carries),
            nodes=tuple(self.nodes),
            outputs={name: value for name, (value, _) in self.outputs.items()},
            writes={carry.name: after for _, carry, after, _ in self.carries},
        )
        return replace(
            self.loop.node,
            inputs=(*(init for init, *_ in self.carries), *(outer for outer, _ in reads)),
            outputs=(
                *(last for *_, last in self.carries),
                *(stack for _, stack in self.outputs.values()),
            ),
            attrs={**self.loop.node.attrs, "body": body},
        )


def take_apart(node: Node) -> LoopParts:
    loop = LoopNode(node)
    return LoopParts(
        loop,
        [*zip(loop.inits, loop.carries, loop.next_carries, loop.finals, strict=True)],
        list(loop.sliced),
        list(loop.invariants),
        {
            name: (value, stack)
            for (name, value), stack in zip(loop.body.outputs.items(), loop.stacks, strict=True)
        },
        list(loop.body.nodes),
    )
