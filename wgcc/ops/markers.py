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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Node, TensorType, Value
from wgcc.lazy_numpy import Array
from wgcc.ops.checks import check_dtype, check_scalar
from wgcc.ops.optimizers import OPTIMIZERS
from wgcc.ops.registry import Marker, Op, ShapeError

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


OPS = (
    Op("grad", infer_grad, reference, Marker("autograd")),
    Op("minimize", infer_minimize, reference, Marker("autograd"), stops_gradient=True),
    Op("update", infer_update, reference, Marker("optimizer")),
    Op("remat", infer_remat, reference_remat, Marker("autograd"), grad_remat, identity=True),
)
