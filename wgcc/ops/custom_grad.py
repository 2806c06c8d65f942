"""Functions that state their own gradient; autograd replaces both ops.

- cotangent(y) -> the gradient that arrives at a result y, of its type: an unknown, until autograd
  passes through the `custom_grad` it belongs to.
- custom_grad(*ys, *cotangents, *xs, *gradients; results, arguments) -> ys, but the gradient of each
  argument x is its `gradient`, which is computed from the cotangents by ordinary nodes. Autograd
  repeats those nodes with the gradients that have arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Node, TensorType, Value
from wgcc.ir.loops import with_fresh_names
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype
from wgcc.ops.registry import Marker, Op, ShapeError

CUSTOM, COTANGENT = "custom_grad", "cotangent"


def infer_cotangent(y: TensorType) -> TensorType:
    check_dtype(COTANGENT, y, FLOATS)
    return y


def reference_cotangent(y: Array) -> Array:
    return np.zeros_like(y)


def infer_custom(*types: TensorType, results: int, arguments: int) -> tuple[TensorType, ...]:
    ys, cotangents = types[:results], types[results : 2 * results]
    xs, gradients = types[2 * results : 2 * results + arguments], types[2 * results + arguments :]
    if ys != cotangents or xs != gradients:
        raise ShapeError("custom_grad needs a gradient of the same type for each argument")
    return ys


def reference_custom(*arrays: Array, results: int, arguments: int) -> Any:
    return arrays[:results] if results > 1 else arrays[0]


def grad_custom(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = the function's own nodes, computed from the gradients gs
    results, arguments = node.attrs["results"], node.attrs["arguments"]
    cotangents = node.inputs[results : 2 * results]
    arrived = {
        unknown.name: g if g is not None else b.zeros(unknown)
        for unknown, g in zip(cotangents, gs, strict=True)
    }
    gradients = node.inputs[2 * results + arguments :]
    found = _repeated(b, gradients, arrived)
    return [*([None] * (2 * results)), *found, *([None] * arguments)]


def _repeated(b: Builder, wanted: Sequence[Value], known: dict[str, Value]) -> list[Value]:
    """`wanted`, computed once more with other values for the names in `known`."""
    for node in _needed(_depending(b.nodes, set(known)), wanted):
        outputs = tuple(Value(b.fresh(value.name), value.type) for value in node.outputs)
        inputs = tuple(known.get(value.name, value) for value in node.inputs)
        copy = replace(node, inputs=inputs, outputs=outputs)
        b.nodes.append(with_fresh_names(copy, b.fresh))
        known |= {old.name: new for old, new in zip(node.outputs, outputs, strict=True)}
    return [known.get(value.name, value) for value in wanted]


def _depending(nodes: Sequence[Node], names: set[str]) -> list[Node]:
    """The nodes that depend on values of these names, but for what defines those."""
    found, reached = [], set(names)
    for node in nodes:
        if any(value.name in reached for value in node.inputs):
            found.append(node)
            reached.update(value.name for value in node.outputs)
    return found


def _needed(nodes: Sequence[Node], wanted: Sequence[Value]) -> list[Node]:
    live, found = {value.name for value in wanted}, []
    for node in reversed(nodes):
        if any(value.name in live for value in node.outputs):
            found.append(node)
            live.update(value.name for value in node.inputs)
    return found[::-1]


OPS = (
    Op(COTANGENT, infer_cotangent, reference_cotangent, Marker("autograd"), stops_gradient=True),
    Op(CUSTOM, infer_custom, reference_custom, Marker("autograd"), grad_custom),
)
