"""The tensors of a layer of Keras, changed where only Keras stores them so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from wgcc.errors import WgError
from wgcc.importing.origin import before_product
from wgcc.lazy_numpy import Array, np

# Keras stores the gates of an LSTM as input, forget, cell, output, those of a GRU as update, reset,
# new.
GATES = {4: "ifgo", 3: "zrn"}
_ATTENTION = re.compile(r"(query|key|value|output|attention_output)(_dense)?")
_SEPARABLE = {
    "depthwise_kernel": "depthwise.kernel", "pointwise_kernel": "pointwise.kernel",
    "bias": "pointwise.bias",
}  # fmt: skip
_CELL = re.compile(r"(.*_)?cell")
_BACKWARD = re.compile(r"backward(_.*)?")
_FORWARD = re.compile(r"forward(_.*)?")


@dataclass(frozen=True, slots=True)
class Layer:
    """`path` of names, arrays by what they are (`kernel`), and words that name its class."""

    path: tuple[str, ...]
    arrays: dict[str, Array]
    kind: str


@dataclass(slots=True)
class Tensors:
    """Arrays by their whole names, the order of gates, and what users must know."""

    arrays: dict[str, Array] = field(default_factory=dict)
    gates: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def attention_paths(layers: Iterable[Layer]) -> set[tuple[str, ...]]:
    """Paths of layers of attention: those with queries, keys and values of several heads."""
    parts: dict[tuple[str, ...], set[str]] = {}
    for layer in layers:
        kernel, bias = layer.arrays.get("kernel"), layer.arrays.get("bias")
        has_heads = kernel is not None and kernel.ndim == 3 and (bias is None or bias.ndim == 2)
        if layer.path and has_heads:
            parts.setdefault(layer.path[:-1], set()).add(layer.path[-1].removesuffix("_dense"))
    return {path for path, found in parts.items() if found >= {"query", "key", "value"}}


def layer_tensors(layer: Layer, is_in_attention: bool = False) -> Tensors:
    name = ".".join(layer.path) or "model"
    _refuse_quantised(name, layer.arrays)
    if "recurrent_kernel" in layer.arrays:
        return _recurrent(layer)
    arrays = layer.arrays
    if layer.path and is_in_attention and _ATTENTION.fullmatch(layer.path[-1]):
        name = ".".join((*layer.path[:-1], layer.path[-1].removesuffix("_dense")))
        arrays = _matrices(arrays, to_heads="output" not in layer.path[-1])
    arrays = {leaf: _depthwise(layer.kind, leaf, array) for leaf, array in arrays.items()}
    parts = _SEPARABLE if "pointwise_kernel" in arrays else {}
    return Tensors({f"{name}.{parts.get(leaf, leaf)}": array for leaf, array in arrays.items()})


def _refuse_quantised(name: str, arrays: dict[str, Array]) -> None:
    for leaf, array in arrays.items():
        if array.dtype.kind in "iu" and array.ndim > 1:
            raise WgError(
                f"{name}.{leaf} holds whole numbers: the model was quantised; save the weights "
                "that it had before"
            )


def _matrices(arrays: dict[str, Array], to_heads: bool) -> dict[str, Array]:
    """[inputs, heads, size] and [heads, size, outputs] as matrices, biases as vectors."""
    kernel, rest = arrays.get("kernel"), {n: array.reshape(-1) for n, array in arrays.items()}
    if kernel is None or kernel.ndim != 3:
        return arrays
    width = kernel.shape[0] if to_heads else kernel.size // max(kernel.shape[2], 1)
    return {**rest, "kernel": kernel.reshape(width, -1)}


def _depthwise(kind: str, leaf: str, array: Array) -> Array:
    """[kernel …, inputs, multiplier] as [kernel …, 1, outputs]."""
    named = leaf == "depthwise_kernel" or (leaf == "kernel" and "depthwise" in kind)
    if array.ndim < 3 or not named:
        return array
    return array.reshape(*array.shape[:-2], 1, -1)


def _check_recurrent(name: str, arrays: dict[str, Array]) -> None:
    """Two matrices, and at most one bias for each."""
    inputs, hidden = arrays.get("kernel"), arrays["recurrent_kernel"]
    if hidden.ndim > 2:
        raise WgError(
            f"{name} is a recurrent layer of convolutions (ConvLSTM), which wgcc does not have"
        )
    bias = arrays.get("bias")
    is_matrix = hidden.ndim == 2 and hidden.size and inputs is not None and inputs.ndim == 2
    is_bias = bias is None or bias.ndim == 1 or (bias.ndim == 2 and len(bias) == 2)
    if not is_matrix or not is_bias:
        shapes = ", ".join(f"{leaf} {list(array.shape)}" for leaf, array in arrays.items())
        raise WgError(f"{name} is no recurrent layer of Keras: it has {shapes}")


def _recurrent(layer: Layer) -> Tensors:
    """`lstm.kernel_ih`, `lstm.kernel_hh` and a bias for each, with `_reverse` for the way back."""
    words = [w for w in layer.path if not _CELL.fullmatch(w)]
    end = "_reverse" if any(_BACKWARD.fullmatch(w) for w in words) else ""
    inner = [w for w in words if not _BACKWARD.fullmatch(w) and not _FORWARD.fullmatch(w)]
    name = ".".join(inner) or "model"
    _check_recurrent(name, layer.arrays)
    units, width = layer.arrays["recurrent_kernel"].shape
    found = Tensors()
    found.arrays[f"{name}.kernel_ih{end}"] = layer.arrays["kernel"]
    found.arrays[f"{name}.kernel_hh{end}"] = layer.arrays["recurrent_kernel"]
    if (bias := layer.arrays.get("bias")) is not None:
        both = bias if bias.ndim == 2 else np.stack([bias, np.zeros_like(bias)])
        found.arrays[f"{name}.bias_ih{end}"], found.arrays[f"{name}.bias_hh{end}"] = both
        if width == 3 * units and bias.ndim == 1:
            found.notes.append(before_product(name, "reset_after=False"))
    if order := GATES.get(width // units):
        found.gates = dict.fromkeys(found.arrays, order)
    return found
