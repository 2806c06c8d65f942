"""Simpler forms of views: chains of them become one, and identities are removed."""

from __future__ import annotations

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, Value
from wgcc.ops import OPS
from wgcc.ops.registry import Reduce
from wgcc.passes.known_values import Known, Rule


def _reshape(b: Builder, known: Known, node: Node) -> Value | None:
    (x,) = node.inputs
    if x.shape == node.output.shape:
        return x
    inner = known.producer(x, "reshape")
    return b.apply("reshape", inner.inputs[0], shape=node.output.shape) if inner else None


def _transpose(b: Builder, known: Known, node: Node) -> Value | None:
    """Moving only axes of size 1 is a reshape."""
    (x,), perm = node.inputs, node.attrs["perm"]
    if list(perm) == sorted(perm):
        return x
    if inner := known.producer(x, "transpose"):
        composed = tuple(inner.attrs["perm"][axis] for axis in perm)
        return b.apply("transpose", inner.inputs[0], perm=composed)
    wide = [axis for axis in perm if x.shape[axis] != 1]
    return b.apply("reshape", x, shape=node.output.shape) if wide == sorted(wide) else None


def _broadcast(b: Builder, known: Known, node: Node) -> Value | None:
    """Axes align from the last, so leading axes of size 1 need not be added before."""
    (x,), shape = node.inputs, node.output.shape
    if x.shape == shape:
        return x
    if inner := known.producer(x, "broadcast"):
        return b.apply("broadcast", inner.inputs[0], shape=shape)
    inner = known.producer(x, "reshape")
    if (
        inner
        and x.shape == (1,) * (x.type.rank - inner.inputs[0].type.rank) + inner.inputs[0].shape
    ):
        return b.apply("broadcast", inner.inputs[0], shape=shape)
    return None


def _slice(b: Builder, known: Known, node: Node) -> Value | None:
    (x,) = node.inputs
    if x.shape == node.output.shape:
        return x
    inner = known.producer(x, "slice")
    if inner is None:
        return None
    places = zip(node.attrs["starts"], inner.attrs["starts"], inner.attrs["steps"], strict=True)
    steps = zip(node.attrs["steps"], inner.attrs["steps"], strict=True)
    return b.apply(
        "slice",
        inner.inputs[0],
        starts=tuple(start + at * step for at, start, step in places),
        sizes=node.attrs["sizes"],
        steps=tuple(outer * within for outer, within in steps),
    )


def _if_same_shape(b: Builder, known: Known, node: Node) -> Value | None:
    """An op that could only have changed the shape, and did not."""
    return node.inputs[0] if node.inputs[0].type == node.output.type else None


def _concat(b: Builder, known: Known, node: Node) -> Value | None:
    return node.inputs[0] if len(node.inputs) == 1 else None


def _reduce(b: Builder, known: Known, node: Node) -> Value | None:
    """A reduction over axes of size 1 only removes them."""
    (x,) = node.inputs
    if x.dtype != node.output.dtype or any(x.shape[axis] != 1 for axis in node.attrs["axes"]):
        return None
    return b.apply("reshape", x, shape=node.output.shape)


VIEW_RULES: dict[str, Rule] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "slice": _slice,
    "unslice": _if_same_shape,
    "window": _if_same_shape,
    "concat": _concat,
    **{op.name: _reduce for op in OPS.values() if isinstance(op.lower, Reduce)},
}
