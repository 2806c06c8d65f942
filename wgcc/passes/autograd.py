"""Replaces `grad` and `minimize` by the nodes that compute gradients, in reverse mode.

The derivative of an op is in the op's file. What an optimizer does with gradients is not known
here: each `minimize` becomes an `update` of the same parameters by their gradients.

Removes what describes functions with a gradient of their own, once gradients are computed.

Ops that need a gradient and have none: collected, and reported together.

The gradient of one value with respect to others: each op's rule, applied backwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from wgcc.errors import Diagnostics, Span, WgError
from wgcc.ir.graph import FLOATS, Builder, Graph, Node, Value
from wgcc.ir.loops import map_bodies
from wgcc.ops import OPS
from wgcc.ops.markers import COTANGENT, CUSTOM
from wgcc.ops.registry import GradRule, Ordinary
from wgcc.passes.loop_gradient import loop_gradient
from wgcc.passes.loss_scale import with_scale
from wgcc.passes.rematerialise import MARK, Rematerialise
from wgcc.passes.rewrite import Rewrite, prune, rename_values, without_marks


def without_custom_gradients(graph: Graph) -> Graph:
    """Results are those of the function; a gradient that nothing asked for is zero."""
    graph = map_bodies(graph, without_custom_gradients)
    if not any(node.op in (COTANGENT, CUSTOM) for node in graph.nodes):
        return graph
    rewrite = Rewrite(graph)
    for node in graph.nodes:
        if node.op == CUSTOM:
            for output, result in zip(node.outputs, node.inputs, strict=False):
                rewrite.put(output, rewrite.current(result))
        elif node.op == COTANGENT:
            with rewrite.builder.at(node.span, node.output.name):
                zeros = rewrite.builder.zeros(node.output)
            rewrite.put(node.output, zeros)
        else:
            rewrite.keep(node)
    return rewrite.finish()


@dataclass(slots=True)
class Missing:
    """The ops without a gradient, by place in the source; `asked` is where one is needed."""

    ops: dict[tuple[Span | None, str], Span | None] = field(default_factory=dict)
    asked: Span | None = None

    def add(self, node: Node) -> None:
        function = node.attrs.get("function")
        self.ops.setdefault((node.span, str(function or node.op)), self.asked)

    def report(self) -> None:
        """Raise if anything is missing."""
        if not self.ops:
            return
        problems = Diagnostics()
        for (span, op), asked in self.ops.items():
            if span is None:
                continue
            problem = problems.error("WG0313", f"there is no gradient of `{op}`", span)
            if asked is not None and asked != span:
                problem.also(asked, "asked for here")
            if op in OPS:
                advice = "compute it in another way, or stop the gradient with `stop_grad(...)`"
            else:
                advice = "state it behind the function: `grad g { return ... }`"
            problem.help(advice)
        raise WgError(f"there is no gradient of `{next(iter(self.ops))[1]}`", problems)


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
    is_marked = any(node.op == MARK for node in tape)
    remat = Rematerialise(builder, tape) if is_marked else None
    backward = _Backward(builder, varying, remat, missing)
    for value, seed in seeds:
        backward.add(value, seed)
    for node in reversed(nodes):
        backward.through(node)
    gradients = [backward.gradients.get(place.name) for place in wrt]
    names = _gradient_names(builder, backward, len(tape))
    builder.nodes[len(tape) :] = [rename_values(node, names) for node in builder.nodes[len(tape) :]]
    return [gradient and names.get(gradient.name, gradient) for gradient in gradients]


class _Backward:
    """The gradients computed so far, by the name of the forward value."""

    def __init__(
        self,
        builder: Builder,
        varying: Collection[str],
        remat: Rematerialise | None,
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
            same = self.remat.copy_of(node, after) if self.remat else node
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
    reaching, path = {target.name for target in targets}, []
    for node in reversed(forward):
        if any(value.name in reaching and value.name in varying for value in node.outputs):
            path.append(node)
            reaching.update(value.name for value in node.inputs)
    return path[::-1], varying


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


def autograd(graph: Graph) -> Graph:
    """Raises one error with all places where a gradient is missing."""
    missing = Missing()
    done = _replace_markers(graph, missing)
    missing.report()
    return prune(without_custom_gradients(without_marks(done, MARK)))


def _replace_markers(graph: Graph, missing: Missing) -> Graph:
    """Gradients in the body of a loop come first: that of the loop is one of all in its body."""
    graph = map_bodies(graph, partial(_replace_markers, missing=missing))
    rewrite = Rewrite(graph)
    for old in graph.nodes:
        node = rewrite.current_node(old)
        missing.asked = node.span
        if node.op == "grad":
            gradients = _grad(rewrite.builder, node, missing)
            for before, after in zip(old.outputs, gradients, strict=True):
                rewrite.put(before, after)
        elif node.op == "minimize":
            rewrite.replace(node, partial(_minimize, rewrite.builder, node, missing))
        else:
            rewrite.keep(node)
    return rewrite.finish()


def _grad(builder: Builder, node: Node, missing: Missing) -> Sequence[Value]:
    value, *wrt = node.inputs
    with builder.at(node.span, f"d.{value.name}"):
        seed = _fill(builder, 1.0, value)
    gradients = differentiate(builder, value, wrt, seed, missing)
    with builder.at(node.span, node.outputs[0].name):
        return [
            gradient or _fill(builder, 0.0, place)
            for gradient, place in zip(gradients, wrt, strict=True)
        ]


def _minimize(builder: Builder, node: Node, missing: Missing) -> Sequence[Value]:
    """A parameter that the loss does not depend on is not changed, not even by decay (as in
    PyTorch)."""
    loss, *rest = node.inputs
    dynamic, params = rest[: len(node.attrs["dynamic"])], rest[len(node.attrs["dynamic"]) :]
    with builder.at(node.span, f"d.{loss.name}"):
        seed = _loss_scale(builder, node, dynamic, loss)
    before = len(builder.nodes)
    gradients = differentiate(builder, loss, params, seed, missing)
    scale = node.attrs["settings"].get("loss_scale", seed.name if seed in dynamic else 1.0)
    if scale != 1.0:
        builder.nodes[before:] = [with_scale(made, scale) for made in builder.nodes[before:]]
    reached = [i for i, gradient in enumerate(gradients) if gradient is not None]
    with builder.at(node.span, node.attrs["optimizer"]):
        *updated, norm = builder.apply_many(
            "update",
            *dynamic,
            *(params[i] for i in reached),
            *(gradient for gradient in gradients if gradient is not None),
            **_narrow(node.attrs, reached),
        )
    results = dict(zip(reached, updated, strict=True))
    return [*(results.get(i, param) for i, param in enumerate(params)), norm]


def _loss_scale(builder: Builder, node: Node, dynamic: Sequence[Value], loss: Value) -> Value:
    """d(scale · loss)/d loss; the optimizer divides gradients by it."""
    names: tuple[str, ...] = node.attrs["dynamic"]
    if "loss_scale" in names:
        return dynamic[names.index("loss_scale")]
    return _fill(builder, node.attrs["settings"].get("loss_scale", 1.0), loss)


def _narrow(attrs: Mapping[str, Any], reached: Sequence[int]) -> dict[str, Any]:
    """The attributes of `minimize` for the parameters at the positions `reached` only."""
    place = {old: new for new, old in enumerate(reached)}
    groups = tuple(
        (tuple(place[i] for i in members if i in place), settings)
        for members, settings in attrs["groups"]
    )
    return {**attrs, "groups": groups}


def _fill(builder: Builder, number: float, like: Value) -> Value:
    scalar = builder.constant(number, like.dtype)
    return builder.apply("broadcast", scalar, shape=like.shape) if like.shape else scalar
