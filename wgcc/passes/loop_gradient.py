"""The gradient of a loop: a second loop in the other direction.

One round is differentiated. What the gradient of a round needs of the forward round is stacked, or
computed again; gradients of what all rounds read are sums over rounds.

Which carries of a loop have a gradient: those that depend on something differentiated, and that
a result with a gradient depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from wgcc.ir.graph import FLOATS, Builder, Node, Value
from wgcc.ir.loops import LoopNode
from wgcc.passes.backward_rounds import BackwardRounds, SumRounds
from wgcc.passes.loop_rounds import AllRounds, ForwardRounds


@dataclass(frozen=True, slots=True)
class Activity:
    """`varying`: names in the body that depend on something differentiated. `live`: the carries
    with a gradient. `seeds`: values of a round with the gradients of their stacks outside."""

    varying: Collection[str]
    live: tuple[Value, ...]
    seeds: tuple[tuple[Value, Value], ...]


def find_activity(
    loop: LoopNode, incoming: Sequence[Value | None], wanted: Collection[str]
) -> Activity:
    """`incoming` are gradients of the outputs, `wanted` names outside that are differentiated."""
    varying = _varying(loop, wanted)
    finals, stacks = incoming[: len(loop.finals)], incoming[len(loop.finals) :]
    seeds = tuple(
        (value, gradient)
        for value, gradient in zip(loop.body.outputs.values(), stacks, strict=True)
        if gradient is not None and value.name in varying
    )
    pairs = zip(loop.carries, finals, strict=True)
    started = {carry.name for carry, gradient in pairs if gradient is not None}
    targets = {value.name for value, _ in seeds}
    return Activity(varying, _live(loop, varying, started, targets), seeds)


def _varying(loop: LoopNode, wanted: Collection[str]) -> set[str]:
    read = (*zip(loop.inits, loop.carries, strict=True), *loop.sliced, *loop.invariants)
    varying = {inner.name for outer, inner in read if outer.name in wanted and _is_float(inner)}
    while True:
        before = len(varying)
        for node in loop.body.nodes:
            if any(value.name in varying for value in node.inputs):
                varying.update(value.name for value in node.outputs if _is_float(value))
        for carry, after in zip(loop.carries, loop.next_carries, strict=True):
            if after.name in varying and _is_float(carry):
                varying.add(carry.name)
        if len(varying) == before:
            return varying


def _live(
    loop: LoopNode, varying: set[str], started: set[str], targets: set[str]
) -> tuple[Value, ...]:
    live = {value.name for value in loop.carries if value.name in started & varying}
    while True:
        reaching = {*targets, *(loop.body.writes[name].name for name in live)}
        for node in reversed(loop.body.nodes):
            if any(value.name in reaching and value.name in varying for value in node.outputs):
                reaching.update(value.name for value in node.inputs)
        more = {v.name for v in loop.carries if v.name in reaching and v.name in varying} | live
        if more == live:
            return tuple(value for value in loop.carries if value.name in live)
        live = more


def _is_float(value: Value) -> bool:
    return value.dtype in FLOATS


# Of some values of a graph under construction, each with its gradient, the gradients of others.
PullBack = Callable[
    [Builder, Sequence[tuple[Value, Value]], Sequence[Value]], Sequence[Value | None]
]


def loop_gradient(
    b: Builder,
    node: Node,
    incoming: Sequence[Value | None],
    wanted: Collection[str],
    pull_back: PullBack,
) -> list[Value | None]:
    """The gradient of each input of `node`, from those of its outputs.

    Only those of inputs whose names are `wanted` are computed. The nodes are appended to `b`; in
    place of `node`, `b` gets a loop with more stacks.
    """
    loop = LoopNode(node)
    active = find_activity(loop, incoming, wanted)
    if not active.live and not active.seeds:
        return [None] * len(node.inputs)
    inner = b.inner()
    inner.nodes = list(loop.body.nodes)
    gradients = _Gradients(b, loop, inner, active, incoming, pull_back)
    return gradients.run()


class _Gradients:
    def __init__(
        self,
        b: Builder,
        loop: LoopNode,
        inner: Builder,
        active: Activity,
        incoming: Sequence[Value | None],
        pull_back: PullBack,
    ) -> None:
        self.b, self.loop, self.inner, self.active = b, loop, inner, active
        self.incoming, self.pull_back = incoming, pull_back

    def run(self) -> list[Value | None]:
        loop, live = self.loop, self.active.live
        before = {c.name: self._cotangent(loop.body.writes[c.name]) for c in live}
        slices = [(g, self._cotangent(value)) for value, g in self.active.seeds]
        gradients = self._differentiate(before, [inner for _, inner in slices])
        count = len(loop.body.nodes)
        forward = ForwardRounds(self.b, loop, tuple(self.inner.nodes[:count]))
        backward = BackwardRounds(self.b, self.inner, forward, sliced=slices)
        results = self._carry_gradients(backward, before, gradients)
        for x, inner in loop.sliced:
            if (gradient := gradients.get(inner.name)) is not None:
                results[x.name, inner.name] = backward.stack(gradient)
        after = self.b.inner()
        self._add_captured(after, backward, gradients, results)
        self._append(backward, after)
        read = (*zip(loop.inits, loop.carries, strict=True), *loop.sliced, *loop.invariants)
        return [results.get((outer.name, inner.name)) for outer, inner in read]

    def _cotangent(self, value: Value) -> Value:
        """The gradient of a value of the round, as the body of the new loop reads it."""
        return Value(self.b.fresh(f"d.{value.name}"), value.type)

    def _differentiate(
        self, before: dict[str, Value], slices: Sequence[Value]
    ) -> dict[str, Value | None]:
        """The gradient of each source of the round, by name, as nodes of `inner`."""
        writes = self.loop.body.writes
        seeds = [(writes[name], value) for name, value in before.items()]
        for (value, _), inner in zip(self.active.seeds, slices, strict=True):
            seeds.append((value, inner))
        inputs = self.loop.body.inputs[1:]
        wrt = [*self.active.live, *(v for v in inputs if v.name in self.active.varying)]
        gradients = self.pull_back(self.inner, seeds, wrt)
        return {value.name: gradient for value, gradient in zip(wrt, gradients, strict=True)}

    def _carry_gradients(
        self,
        backward: BackwardRounds,
        before: dict[str, Value],
        gradients: dict[str, Value | None],
    ) -> dict[tuple[str, str], Value]:
        """The gradients of initial carries: what the carries of this loop end with."""
        results = {}
        for init, carry, gradient in zip(
            self.loop.inits, self.loop.carries, self.incoming, strict=False
        ):
            if carry.name in before:
                start = gradient or self.b.zeros(carry)
                after = gradients[carry.name] or self.inner.zeros(carry)
                last = backward.carry(start, before[carry.name], after)
                results[init.name, carry.name] = last
        return results

    def _add_captured(
        self,
        after: Builder,
        backward: BackwardRounds,
        gradients: dict[str, Value | None],
        results: dict[tuple[str, str], Value],
    ) -> None:
        forward = {value.name for node in backward.forward.nodes for value in node.outputs}
        forward |= {value.name for value in self.loop.body.sources}
        outside = AllRounds(
            after,
            backward.forward,
            list(self.inner.nodes),
            lambda value: value.name in forward,
            backward.has_stack,
            backward.stack,
        )
        sums = SumRounds(after, outside, backward.add_up)
        for outer, inner in self.loop.invariants:
            if (gradient := gradients.get(inner.name)) is not None:
                results[outer.name, inner.name] = sums.total(gradient)

    def _append(self, backward: BackwardRounds, after: Builder) -> None:
        loop = backward.finish()
        forward, more = backward.forward.finish()
        name = self.loop.node.outputs[0].name
        place = next(i for i, node in enumerate(self.b.nodes) if node.outputs[0].name == name)
        self.b.nodes[place] = forward
        self.b.nodes += [*more, loop, *after.nodes]
