"""Options for the training of an imported model, and other classes for its last layer.

Classes are changed in the ONNX graph itself: all that follows (shapes, text, comparison) sees an
ordinary model with these classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wgcc.errors import WgError
from wgcc.lazy_numpy import Array, np

# Cross entropy has a class for each row, the others a target of the output's shape.
LOSSES = ("cross_entropy", "mse", "mae", "huber", "bce_logits", "bce")
RANK = 8
LEARNING_RATE = 1e-3


@dataclass(frozen=True, slots=True)
class Training:
    """`train`: `all`, `head`, or a pattern of parameters. `lora`: patterns of linear layers."""

    train: str | None = None
    loss: str = LOSSES[0]
    output: str | None = None
    lora: tuple[str, ...] = ()
    rank: int = RANK
    lr: float = LEARNING_RATE

    @property
    def is_wanted(self) -> bool:
        return self.train is not None or bool(self.lora)


# A layer between the classes and the output that mixes or filters them is no classifier's.
PRODUCTS = ("MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "LSTM", "GRU", "RNN", "Gather")
MOST_CLASSES = 100_000
# How far random numbers are from zero where the old ones are all equal.
SPREAD = 0.1
# The input of `entry train` that has the classes.
TARGET = "target"
# Operators that change scores by one number for each class, and the number that changes nothing.
NEUTRAL = {"Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0}


@dataclass(frozen=True, slots=True)
class Classes:
    """`count` classes: in place of the old ones, or beside them."""

    count: int
    keeps_old: bool

    @property
    def option(self) -> str:
        return f"--{'more-' if self.keeps_old else ''}classes {self.count}"


@dataclass(frozen=True, slots=True)
class StoredClasses:
    """A stored tensor, and which of its axes has the classes. `neutral` changes no score."""

    tensor: Any
    axis: int
    neutral: float = 0.0

    @property
    def classes(self) -> int:
        return int(self.tensor.dims[self.axis])


@dataclass(frozen=True, slots=True)
class Changed:
    """The output whose last axis has the new classes, and how many there are in all."""

    output: str
    count: int

    def check(self, shape: tuple[int, ...], wanted: Classes) -> None:
        """A file may state the old number elsewhere, as in the shape of a reshape."""
        if shape[-1:] != (self.count,):
            raise WgError(
                f"{wanted.option}: `{self.output}` must have {self.count} numbers for each row, "
                f"but the file fixes its shape as {list(shape)}"
            )


def classes_known(plan: Mapping[str, Any], wanted: Classes | None) -> dict[str, Any] | None:
    """Which ids the imported weights know, for data with names of classes; see wgcc/DATA.md.

    The file has no names, so each class is called by its number. Ids without a name are those that
    were added. None where there are no rows of one class each.
    """
    train = plan["entries"].get("train", {})
    limits = train.get("ranges", {}).get(TARGET)
    if limits is None or len(plan["tensors"][train["inputs"][TARGET]]["shape"]) != 1:
        return None
    kept = limits["high"] + 1 - wanted.count if wanted else limits["high"] + 1
    names = [str(number) for number in range(kept)]
    inputs = {TARGET: {"kind": "classes", "classes": names}}
    return {"version": 1, "inputs": inputs, "target": TARGET, "missing": "drop"}


def change_classes(
    model: Any, wanted: Classes, output: str | None, drawn: Any = None
) -> Changed | None:
    """`output`: the one that the loss is of; the first one of floats without it.

    `drawn`: a generator, if the new layer is to have random numbers.
    """
    graph = model.graph
    ports = [port for port in graph.output if output in (None, port.name) and _has_floats(port)]
    port = ports[0] if ports else None
    if port is None:
        return None  # the loss will say which outputs there are
    weights, beside = _last_layer(graph, port.name, wanted)
    before = weights.classes
    for stored in (weights, *beside):
        _replace(stored, wanted, drawn)
    sizes = port.type.tensor_type.shape.dim
    if sizes and sizes[-1].dim_value == before:
        sizes[-1].dim_value = weights.classes
    del graph.value_info[:]
    return Changed(port.name, weights.classes)


def _has_floats(port: Any) -> bool:
    from onnx import TensorProto

    kinds = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
    return port.type.tensor_type.elem_type in kinds


def _last_layer(
    graph: Any, output: str, wanted: Classes
) -> tuple[StoredClasses, list[StoredClasses]]:
    """The matrix of the last layer and what is added to its product, or multiplied with it."""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    path, others = _path(graph, output)
    last = path[-1] if path else None
    if last is None or last.op_type not in ("MatMul", "Gemm") or last.input[1] not in stored:
        kind = f"`{last.name}` ({last.op_type})" if last is not None else "none"
        raise WgError(
            f"{wanted.option}: the last layer must be a product with a stored matrix; it is {kind}"
        )
    is_transposed = any(item.name == "transB" and item.i for item in last.attribute)
    weights = StoredClasses(stored[last.input[1]], 0 if is_transposed else 1)
    if len(weights.tensor.dims) != 2:
        raise WgError(f"{wanted.option}: `{weights.tensor.name}` is no matrix")
    used = {name: NEUTRAL[node.op_type] for node in path if node.op_type in NEUTRAL
            for name in node.input}  # fmt: skip
    used |= dict.fromkeys(last.input[2:], 0.0)
    beside = [
        StoredClasses(stored[name], len(stored[name].dims) - 1, neutral)
        for name, neutral in used.items()
        if name in stored and stored[name].dims and stored[name].dims[-1] == weights.classes
    ]
    _refuse_shared(graph, [weights, *beside], wanted)
    _refuse_several(last, others, stored, weights.classes, wanted)
    return weights, beside


def _path(graph: Any, output: str) -> tuple[list[Any], list[Any]]:
    """Nodes from an output back to the nearest product, the last of them; then other products."""
    makers = {name: node for node in graph.node for name in node.output if name}
    names, seen = [output], {output}
    path: list[Any] = []
    others: list[Any] = []
    while names:
        node = makers.get(names.pop(0))
        if node is None:
            continue
        is_product, is_found = node.op_type in PRODUCTS, bool(path) and path[-1].op_type in PRODUCTS
        if not is_found:
            path.append(node)
        elif is_product:
            others.append(node)
        if is_product:
            continue
        new = [name for name in node.input if name and name not in seen]
        names += new
        seen.update(new)
    return path, others


def _refuse_several(
    last: Any, others: list[Any], stored: dict[str, Any], classes: int, wanted: Classes
) -> None:
    """Scores that are a sum of two products need new classes in both."""
    for node in others:
        matrix = stored.get(node.input[1]) if len(node.input) > 1 else None
        if node is not last and matrix is not None and classes in matrix.dims:
            names = " and ".join(f"`{item.input[1]}`" for item in (last, node))
            raise WgError(f"{wanted.option}: the classes come from two layers, {names}")


def _refuse_shared(graph: Any, layer: list[StoredClasses], wanted: Classes) -> None:
    for stored in layer:
        name = stored.tensor.name
        if sum(name in node.input for node in graph.node) > 1:
            raise WgError(
                f"{wanted.option}: `{name}` of the last layer is used elsewhere in the model, too"
            )


def _replace(stored: StoredClasses, wanted: Classes, drawn: Any) -> None:
    """New classes beside old ones start as their mean, others all equally likely."""
    from onnx.numpy_helper import from_array, to_array

    old = to_array(stored.tensor)
    shape = list(old.shape)
    shape[stored.axis] = wanted.count
    new: Array = np.full(shape, stored.neutral, old.dtype)
    if drawn is not None:
        spread = float(old.std()) or SPREAD
        new = (new + spread * drawn.standard_normal(shape)).astype(old.dtype)
    if wanted.keeps_old:
        mean = old.mean(axis=stored.axis, keepdims=True, dtype=np.float64)
        added = np.broadcast_to(mean.astype(old.dtype), shape)
        new = np.concatenate([old, added], axis=stored.axis)
    stored.tensor.CopyFrom(from_array(np.ascontiguousarray(new), stored.tensor.name))
