"""Ops that stand for work of a later pass; they have no kernels.

- grad(value, *wrt) -> one gradient per wrt; autograd replaces it.
- minimize(loss, *dynamic, *params; optimizer, kind, settings, dynamic, groups) -> (*new params,
  grad_norm); autograd turns it into `update`.
- remat(x; region, is_end) -> x where a `remat` layer begins and ends; autograd rematerialises what
  is between them, and removes the marks.
- update(*dynamic, *params, *grads; the same attributes) -> (*new params, grad_norm); the optimizer
  pass replaces it.

Attributes: `optimizer` its name, `kind` (a key of `OPTIMIZERS`), `settings` numbers by
name, `dynamic` the names of the settings that come as f32 scalars, `groups` pairs (indices of
parameters, settings).

remat_barrier(x, after): x, for values that are recomputed after `after` has been computed.

CSE does not merge them with the values that were computed from x before, so those need not stay in
memory.

watch(x; of, stats) -> x, whose gradient is captured, as `of` or as its statistics: autograd makes
it `watched`, and `settle_captures` removes both. `scale` of `watched` is what the loss was
multiplied by: a number, or the name of a value.

Functions that state their own gradient; autograd replaces both ops.

- cotangent(y) -> the gradient that arrives at a result y, of its type: an unknown, until autograd
  passes through the `custom_grad` it belongs to.
- custom_grad(*ys, *cotangents, *xs, *gradients; results, arguments) -> ys, but the gradient of each
  argument x is its `gradient`, which is computed from the cotangents by ordinary nodes. Autograd
  repeats those nodes with the gradients that have arrived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from wgcc.ir.graph import FLOATS, Builder, Node, TensorType, Value
from wgcc.ir.loops import with_fresh_names
from wgcc.lazy_numpy import Array, np
from wgcc.ops.optimizers import OPTIMIZERS
from wgcc.ops.registry import Marker, Op, Sample, ShapeError, View, check_dtype, check_scalar

Groups = tuple[tuple[tuple[int, ...], Mapping[str, Any]], ...]
DIFFERENTIATING = ("grad", "minimize")


def infer_grad(value: TensorType, *wrt: TensorType) -> tuple[TensorType, ...]:
    check_scalar("grad", "what is differentiated", value, FLOATS)
    for type_ in wrt:
        check_dtype("grad", type_, FLOATS)
    return wrt


def infer_minimize(
    loss: TensorType,
    *rest: TensorType,
    optimizer: str,
    kind: str,
    settings: Mapping[str, Any],
    dynamic: tuple[str, ...],
    groups: Groups,
) -> tuple[TensorType, ...]:
    check_scalar("minimize", "the loss", loss, FLOATS)
    _check_settings("minimize", kind, rest, dynamic)
    return _results("minimize", rest[len(dynamic) :])


def infer_update(
    *inputs: TensorType,
    optimizer: str,
    kind: str,
    settings: Mapping[str, Any],
    dynamic: tuple[str, ...],
    groups: Groups,
) -> tuple[TensorType, ...]:
    _check_settings("update", kind, inputs, dynamic)
    tensors = inputs[len(dynamic) :]
    half = len(tensors) // 2
    if tensors[:half] != tensors[half:]:
        raise ShapeError("update needs one gradient for each parameter, of the same type")
    return _results("update", tensors[:half])


def _check_settings(
    op: str, kind: str, inputs: tuple[TensorType, ...], dynamic: tuple[str, ...]
) -> None:
    if kind not in OPTIMIZERS:
        raise ShapeError(f"there is no optimizer {kind} (there are {', '.join(OPTIMIZERS)})")
    for name, type_ in zip(dynamic, inputs, strict=False):
        check_scalar(op, name, type_, ("f32",))


def _results(op: str, params: tuple[TensorType, ...]) -> tuple[TensorType, ...]:
    if not params:
        raise ShapeError(f"{op}: there is nothing to train")
    for param in params:
        check_dtype(op, param, FLOATS)
    return (*params, TensorType((), "f32"))


def infer_remat(x: TensorType, region: int, is_end: bool) -> TensorType:
    return x


def reference_remat(x: Array, region: int, is_end: bool) -> Array:
    return x


def grad_remat(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g
    return list(gs)


def reference(*arrays: Any, **attrs: Any) -> Any:
    raise NotImplementedError("a marker has no value: run the pass that replaces it first")


def infer(x: TensorType, after: TensorType) -> TensorType:
    return x


def reference_remat_barrier(x: Array, after: Array) -> Array:
    return x


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g
    return [gs[0], None]


WATCH, WATCHED = "watch", "watched"
# The pass that removes them.
SETTLED = "settle_captures"


def infer_watch(x: TensorType, of: str, stats: bool, scale: float | str = 1.0) -> TensorType:
    check_dtype(WATCH, x, FLOATS)
    return x


def reference_watch(x: Array, of: str, stats: bool, scale: float | str = 1.0) -> Array:
    return x


def grad_watch(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g
    return [g and b.apply(WATCHED, g, **node.attrs) for g in gs]


def grad_watched(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g
    return list(gs)


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
    argument_gradients = _recompute(b, gradients, arrived)
    return [*([None] * (2 * results)), *argument_gradients, *([None] * arguments)]


def _recompute(b: Builder, wanted: Sequence[Value], known: dict[str, Value]) -> list[Value]:
    """`wanted`, computed once more with other values for the names in `known`."""
    for node in _nodes_for(_dependents(b.nodes, set(known)), wanted):
        outputs = tuple(Value(b.fresh(value.name), value.type) for value in node.outputs)
        inputs = tuple(known.get(value.name, value) for value in node.inputs)
        copy = replace(node, inputs=inputs, outputs=outputs)
        b.nodes.append(with_fresh_names(copy, b.fresh))
        known |= {old.name: new for old, new in zip(node.outputs, outputs, strict=True)}
    return [known.get(value.name, value) for value in wanted]


def _dependents(nodes: Sequence[Node], names: set[str]) -> list[Node]:
    """The nodes that depend on values of these names, but for what defines those."""
    dependents, reached = [], set(names)
    for node in nodes:
        if any(value.name in reached for value in node.inputs):
            dependents.append(node)
            reached.update(value.name for value in node.outputs)
    return dependents


def _nodes_for(nodes: Sequence[Node], wanted: Sequence[Value]) -> list[Node]:
    live, needed = {value.name for value in wanted}, []
    for node in reversed(nodes):
        if any(value.name in live for value in node.outputs):
            needed.append(node)
            live.update(value.name for value in node.inputs)
    return needed[::-1]


OPS = (
    Op("grad", infer_grad, reference, Marker("autograd")),
    Op("minimize", infer_minimize, reference, Marker("autograd"), stops_gradient=True),
    Op("update", infer_update, reference, Marker("optimizer")),
    Op("remat", infer_remat, reference_remat, Marker("autograd"), grad_remat, identity=True),
    Op(
        "remat_barrier",
        infer,
        reference_remat_barrier,
        View(lambda node, index: index),
        grad,
        [Sample([(65,), (3,)]), Sample([(3, 5), ()]), Sample([(), (2, 2)])],
    ),
    Op(WATCH, infer_watch, reference_watch, Marker(SETTLED), grad_watch, identity=True),
    Op(WATCHED, infer_watch, reference_watch, Marker(SETTLED), grad_watched, identity=True),
    Op(COTANGENT, infer_cotangent, reference_cotangent, Marker("autograd"), stops_gradient=True),
    Op(CUSTOM, infer_custom, reference_custom, Marker("autograd"), grad_custom),
)
