"""Tensors of an ONNX graph under names that say what they are, as far as its nodes show it.

Recurrent operators store both directions, and both biases, in one tensor each, and have an order of
gates of their own. Exporters rename matrices that they transposed (`onnx::MatMul_42`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from wgcc.importing.onnx_stored import stored
from wgcc.importing.origin import Origin, Weights, before_product
from wgcc.lazy_numpy import Array

# The gates that each operator has, as it stores them.
GATES = {"LSTM": "iofg", "GRU": "zrn", "RNN": ""}


def named_weights(graph: Any, arrays: Mapping[str, Array]) -> Weights:
    """`graph`: the `GraphProto` that stores these arrays."""
    found = dict(arrays)
    gates: dict[str, str] = {}
    notes: list[str] = []
    layers: Counter[str] = Counter()
    matrices: set[str] = set()
    titles = stored(graph, arrays).titles
    for node in graph.node:
        if node.op_type == "MatMul" or (node.op_type, _attribute(node, "transB", 0)) == ("Gemm", 0):
            matrices.add(_matrix(node, found, titles))
        kind = GATES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if kind is None or any(name not in arrays for name in node.input[1:3]):
            continue
        module = _scope(node)
        parts = dict(_directions(node, arrays, f"{module}.", layers[module]))
        layers[module] += 1
        gates |= dict.fromkeys(parts, kind)
        if node.op_type == "GRU" and not _attribute(node, "linear_before_reset", 0):
            notes.append(before_product(module, "linear_before_reset = 0"))
        for name in node.input[1:4]:
            found.pop(name, None)
        found |= parts
    return Weights(found, Origin(gates=gates, inputs_first=frozenset(matrices), notes=tuple(notes)))


def _matrix(node: Any, found: dict[str, Array], titles: Mapping[str, str]) -> str:
    """The name of its second operand: `onnx::MatMul_42` of `/fc/MatMul`, and what the newer
    exporter says is made of `fc.weight`, become `fc.kernel`."""
    name = str(node.input[1]) if len(node.input) > 1 else ""
    module, _, own = titles.get(name, "").rpartition(".")
    better = f"{module if own == 'weight' else _scope(node)}.kernel"
    is_renamed = name.startswith("onnx::") or own == "weight"
    if is_renamed and name in found and better not in found:
        found[better] = found.pop(name)
        return better
    return name


def _scope(node: Any) -> str:
    """`/encoder/lstm/LSTM_1` → `encoder.lstm`"""
    words = [word for word in node.name.split("/") if word]
    return ".".join(words[:-1] or words) or node.op_type.lower()


def _directions(
    node: Any, arrays: Mapping[str, Array], module: str, layer: int
) -> Iterator[tuple[str, Array]]:
    """PyTorch's names: `lstm.weight_ih_l0`, `lstm.bias_hh_l0_reverse`."""
    inputs, recurrent = (arrays[name] for name in node.input[1:3])
    bias = arrays.get(node.input[3]) if len(node.input) > 3 else None
    only_reverse = _attribute(node, "direction", b"forward") == b"reverse"
    for place in range(min(len(inputs), 2)):
        end = f"_l{layer}" + ("_reverse" if place or only_reverse else "")
        yield f"{module}weight_ih{end}", inputs[place]
        yield f"{module}weight_hh{end}", recurrent[place]
        if bias is not None:
            half = bias.shape[1] // 2
            yield f"{module}bias_ih{end}", bias[place, :half]
            yield f"{module}bias_hh{end}", bias[place, half:]


def _attribute(node: Any, name: str, default: Any) -> Any:
    found = [item for item in node.attribute if item.name == name]
    return (found[0].s or found[0].i) if found else default
