"""Replaces `grad` and `minimize` by the nodes that compute gradients, in reverse mode.

The derivative of an op is in the op's file. What an optimizer does with gradients is not known
here: each `minimize` becomes an `update` of the same parameters by their gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.loops import map_bodies
from wgcc.passes.custom_gradients import without_custom_gradients
from wgcc.passes.differentiate import differentiate
from wgcc.passes.missing_gradients import Missing
from wgcc.passes.prune import prune
from wgcc.passes.rematerialise import without_marks
from wgcc.passes.rewrite import Rewrite


def autograd(graph: Graph) -> Graph:
    """Raises one error with all places where a gradient is missing."""
    missing = Missing()
    done = _replace_markers(graph, missing)
    missing.report()
    return prune(without_custom_gradients(without_marks(done)))


def _replace_markers(graph: Graph, missing: Missing) -> Graph:
    """Gradients in the body of a loop come first: that of the loop is one of all in its body."""
    graph = map_bodies(graph, partial(_replace_markers, missing=missing))
    rewrite = Rewrite(graph)
    for old in graph.nodes:
        node = rewrite.updated(old)
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
        seed = _filled(builder, 1.0, value)
    found = differentiate(builder, value, wrt, seed, missing)
    with builder.at(node.span, node.outputs[0].name):
        return [
            gradient or _filled(builder, 0.0, place)
            for gradient, place in zip(found, wrt, strict=True)
        ]


def _minimize(builder: Builder, node: Node, missing: Missing) -> Sequence[Value]:
    """A parameter that the loss does not depend on is not changed, not even by decay (as in
    PyTorch)."""
    loss, *rest = node.inputs
    dynamic, params = rest[: len(node.attrs["dynamic"])], rest[len(node.attrs["dynamic"]) :]
    with builder.at(node.span, f"d.{loss.name}"):
        seed = _loss_scale(builder, node, dynamic, loss)
    found = differentiate(builder, loss, params, seed, missing)
    reached = [i for i, gradient in enumerate(found) if gradient is not None]
    with builder.at(node.span, node.attrs["optimizer"]):
        *updated, norm = builder.apply_many(
            "update",
            *dynamic,
            *(params[i] for i in reached),
            *(gradient for gradient in found if gradient is not None),
            **_narrowed(node.attrs, reached),
        )
    results = dict(zip(reached, updated, strict=True))
    return [*(results.get(i, param) for i, param in enumerate(params)), norm]


def _loss_scale(builder: Builder, node: Node, dynamic: Sequence[Value], loss: Value) -> Value:
    """d(scale · loss)/d loss; the optimizer divides gradients by it."""
    names: tuple[str, ...] = node.attrs["dynamic"]
    if "loss_scale" in names:
        return dynamic[names.index("loss_scale")]
    return _filled(builder, node.attrs["settings"].get("loss_scale", 1.0), loss)


def _narrowed(attrs: Mapping[str, Any], reached: Sequence[int]) -> dict[str, Any]:
    """The attributes of `minimize` for the parameters at the positions `reached` only."""
    place = {old: new for new, old in enumerate(reached)}
    groups = tuple(
        (tuple(place[i] for i in members if i in place), settings)
        for members, settings in attrs["groups"]
    )
    return {**attrs, "groups": groups}


def _filled(builder: Builder, number: float, like: Value) -> Value:
    scalar = builder.constant(number, like.dtype)
    return builder.apply("broadcast", scalar, shape=like.shape) if like.shape else scalar
