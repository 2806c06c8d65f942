"""Tensors of an ONNX graph under names that say what they are, as far as its nodes show it.

Recurrent operators store both directions, and both biases, in one tensor each, and have an order of
gates of their own. Exporters rename matrices that they transposed (`onnx::MatMul_42`). PyTorch's
says which stored tensors are weights: buffers and computed constants (masks, tables of positions)
are not. Other exporters say nothing: there, all stored floats are taken for weights.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from wgcc.importing.transforms import FileWeights, Origin, before_product
from wgcc.lazy_numpy import Array

KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
FOLDED = "pkg.onnxscript.optimizer.folded_from"
SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
_PARAMETER = re.compile(r": PARAMETER target='([^']+)'")


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """`fixed` are tensors that are no weights; `titles` has the weight that one is a form of.

    `scalars` are weights for certain, so that even a single number is one.
    """

    fixed: frozenset[str] = frozenset()
    scalars: frozenset[str] = frozenset()
    titles: dict[str, str] = field(default_factory=dict)


def stored_weights(graph: Any, names: Iterable[str]) -> StoredWeights:
    said = {port.name: _metadata(port) for port in graph.value_info}
    if not any(KIND in entries for entries in said.values()):
        return StoredWeights()
    weights = {name for name, entries in said.items() if entries.get(KIND) == "PARAMETER"}
    weights.update(_PARAMETER.findall(_metadata(graph).get(SIGNATURE, "")))
    titles: dict[str, str] = {}
    for name in names:
        of = [item for item in _folded_names(said.get(name, {})) if item in weights]
        if len(of) == 1 and name not in weights:
            titles[name] = of[0]
        weights |= {name} if of else set()
    fixed = frozenset(name for name in names if name not in weights)
    return StoredWeights(fixed, frozenset(weights), titles)


def repeated_vectors(model: Any, constants: Mapping[str, Array]) -> set[str]:
    """Vectors of one number, as all gains of untrained norms, which PyTorch's exporters store once.

    They are equal only by chance, and train apart.
    """
    if model.producer_name != "pytorch":
        return set()
    graph = model.graph
    inner = {name for node in graph.node for name in _inner_reads(node)}
    read = Counter(name for node in graph.node for name in node.input)
    return {
        name
        for name, array in constants.items()
        if read[name] > 1 and name not in inner and array.dtype.kind == "f"
        and array.ndim == 1 and array.size > 1 and (array == array[0]).all()
    }  # fmt: skip


def _inner_reads(node: Any) -> Iterator[str]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                yield from inner.input
                yield from _inner_reads(inner)


def _metadata(item: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in item.metadata_props}


def _folded_names(entries: dict[str, str]) -> list[str]:
    """The names that the exporter computed a tensor from; the file may say anything."""
    try:
        names = ast.literal_eval(entries.get(FOLDED, "[]"))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [item for item in names if isinstance(item, str)] if isinstance(names, list) else []


# The gates that each operator has, as it stores them.
GATES = {"LSTM": "iofg", "GRU": "zrn", "RNN": ""}


def named_weights(graph: Any, arrays: Mapping[str, Array]) -> FileWeights:
    """`graph`: the `GraphProto` that stores these arrays."""
    weights = dict(arrays)
    gates: dict[str, str] = {}
    notes: list[str] = []
    layers: Counter[str] = Counter()
    matrices: set[str] = set()
    titles = stored_weights(graph, arrays).titles
    for node in graph.node:
        if node.op_type == "MatMul" or (node.op_type, _attribute(node, "transB", 0)) == ("Gemm", 0):
            matrices.add(_matrix(node, weights, titles))
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
            weights.pop(name, None)
        weights |= parts
    return FileWeights(
        weights, Origin(gates=gates, inputs_first=frozenset(matrices), notes=tuple(notes))
    )


def _matrix(node: Any, weights: dict[str, Array], titles: Mapping[str, str]) -> str:
    """The name of its second operand: `onnx::MatMul_42` of `/fc/MatMul`, and what the newer
    exporter says is made of `fc.weight`, become `fc.kernel`."""
    name = str(node.input[1]) if len(node.input) > 1 else ""
    module, _, own = titles.get(name, "").rpartition(".")
    better = f"{module if own == 'weight' else _scope(node)}.kernel"
    is_renamed = name.startswith("onnx::") or own == "weight"
    if is_renamed and name in weights and better not in weights:
        weights[better] = weights.pop(name)
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
    matches = [item for item in node.attribute if item.name == name]
    return (matches[0].s or matches[0].i) if matches else default
