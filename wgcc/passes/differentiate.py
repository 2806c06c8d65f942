"""The gradient of one value with respect to others: each op's rule, applied backwards."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Node, Value
from wgcc.ops import OPS
from wgcc.ops.registry import GradRule, Ordinary
from wgcc.passes.loop_gradient import loop_gradient
from wgcc.passes.missing_gradients import Missing
from wgcc.passes.rematerialise import Rematerialise
from wgcc.passes.rewrite import renamed


def differentiate(
    builder: Builder, value: Value, wrt: Sequence[Value], seed: Value, missing: Missing
) -> list[Value | None]:
    """Append to `builder` the nodes for seed · d value / d wrt; None where there is no path.

    The nodes that `builder` already has are differentiated. A gradient is named after its value:
    `d.NAME`. Ops without a gradient are recorded in `missing`.
    """
    return pull_back(builder, [(value, seed)], wrt, missing)


def pull_back(
    builder: Builder,
    seeds: Sequence[tuple[Value, Value]],
    wrt: Sequence[Value],
    missing: Missing,
) -> list[Value | None]:
    """The same for several values, each with its gradient."""
    tape = tuple(builder.nodes)
    nodes, varying = _between(tape, wrt, [value for value, _ in seeds])
    backward = _Backward(builder, varying, Rematerialise(builder, tape), missing)
    for value, seed in seeds:
        backward.add(value, seed)
    for node in reversed(nodes):
        backward.through(node)
    found = [backward.gradients.get(place.name) for place in wrt]
    names = _gradient_names(builder, backward, len(tape))
    builder.nodes[len(tape) :] = [renamed(node, names) for node in builder.nodes[len(tape) :]]
    return [gradient and names.get(gradient.name, gradient) for gradient in found]


class _Backward:
    """The gradients computed so far, by the name of the forward value."""

    def __init__(
        self,
        builder: Builder,
        varying: Collection[str],
        remat: Rematerialise,
        missing: Missing,
    ) -> None:
        self.builder = builder
        self.varying = varying
        self.remat = remat
        self.gradients: dict[str, Value] = {}
        self.missing = missing

    def through(self, node: Node) -> None:
        """Pass the gradients of the outputs of `node` on to its inputs."""
        incoming = [self.gradients.get(output.name) for output in node.outputs]
        if not any(incoming):
            return
        rule = self._loop_rule(node) if "body" in node.attrs else OPS[node.op].grad
        ordinary = OPS[node.op].ordinary
        with self.builder.at(node.span, f"d.{node.outputs[0].name}"):
            if ordinary is not None:
                self._through_all(ordinary, node, incoming)
                return
            if rule is None:
                self._continue_with_zeros(node)
                return
            after = next(gradient for gradient in incoming if gradient is not None)
            same = self.remat.copy_of(node, after)
            for value, gradient in zip(
                node.inputs, rule(self.builder, same, incoming), strict=True
            ):
                if gradient is not None:
                    self.add(value, gradient)

    def _loop_rule(self, node: Node) -> GradRule:
        """Inputs of a rematerialised copy have other names, but the same places."""
        wanted = [value.name in self.varying for value in node.inputs]

        def rule(b: Builder, same: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
            names = {v.name for v, use in zip(same.inputs, wanted, strict=True) if use}
            return loop_gradient(b, same, gs, names, partial(pull_back, missing=self.missing))

        return rule

    def _through_all(
        self, ordinary: Ordinary, node: Node, incoming: Sequence[Value | None]
    ) -> None:
        """Pass gradients on through the nodes that `ordinary` builds in place of `node`."""
        first = len(self.builder.nodes)
        outputs = ordinary(self.builder, node)
        built, _ = _between(self.builder.nodes[first:], node.inputs, outputs)
        for output, gradient in zip(outputs, incoming, strict=True):
            if gradient is not None:
                self.add(output, gradient)
        for inner in reversed(built):
            self.through(inner)

    def _continue_with_zeros(self, node: Node) -> None:
        """Continue with zeros, to find all other nodes that have no rule, too."""
        self.missing.add(node)
        for value in node.inputs:
            if value.dtype in FLOATS:
                self.add(value, self.builder.zeros(value))

    def add(self, value: Value, gradient: Value) -> None:
        """A value used several times gets the sum of the gradients of its uses."""
        assert gradient.type == value.type, f"d.{value.name} is {gradient.type}, not {value.type}"
        known = self.gradients.get(value.name)
        self.gradients[value.name] = (
            self.builder.apply("add", known, gradient) if known else gradient
        )


def _between(
    tape: Sequence[Node], sources: Iterable[Value], targets: Iterable[Value]
) -> tuple[list[Node], set[str]]:
    """The nodes on a path of floats from one of `sources` to one of `targets`, in order, and the
    names of all values that depend on `sources`.

    New parameters of an optimizer are constants: nothing is differentiated through an update.
    """
    varying = {value.name for value in sources}
    forward = []
    for node in tape:
        if node.op != "update" and any(value.name in varying for value in node.inputs):
            forward.append(node)
            varying.update(value.name for value in node.outputs if value.dtype in FLOATS)
    reaching, found = {target.name for target in targets}, []
    for node in reversed(forward):
        if any(value.name in reaching and value.name in varying for value in node.outputs):
            found.append(node)
            reaching.update(value.name for value in node.inputs)
    return found[::-1], varying


def _gradient_names(builder: Builder, backward: _Backward, first: int) -> dict[str, Value]:
    """Renames the gradients that rules have built to `d.NAME`.

    A value can be the gradient of several (both operands of a sum): the first one gives the name.
    """
    made = {value.name for node in builder.nodes[first:] for value in node.outputs}
    names: dict[str, Value] = {}
    for name, gradient in backward.gradients.items():
        if gradient.name in made and gradient.name not in names:
            names[gradient.name] = Value(builder.fresh(f"d.{name}"), gradient.type)
    return names
