"""Which stored tensors are weights, by what PyTorch's exporter says of each.

It stores buffers and computed constants (masks, tables of positions) beside the parameters. Other
exporters say nothing: there, all stored floats are taken for weights.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from wgcc.lazy_numpy import Array

KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
FOLDED = "pkg.onnxscript.optimizer.folded_from"
SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
_PARAMETER = re.compile(r": PARAMETER target='([^']+)'")


@dataclass(frozen=True, slots=True)
class Stored:
    """`fixed` are tensors that are no weights; `titles` has the weight that one is a form of.

    `scalars` are weights for certain, so that even a single number is one.
    """

    fixed: frozenset[str] = frozenset()
    scalars: frozenset[str] = frozenset()
    titles: dict[str, str] = field(default_factory=dict)


def stored(graph: Any, names: Iterable[str]) -> Stored:
    said = {port.name: _said(port) for port in graph.value_info}
    if not any(KIND in entries for entries in said.values()):
        return Stored()
    weights = {name for name, entries in said.items() if entries.get(KIND) == "PARAMETER"}
    weights.update(_PARAMETER.findall(_said(graph).get(SIGNATURE, "")))
    titles: dict[str, str] = {}
    for name in names:
        of = [item for item in _folded(said.get(name, {})) if item in weights]
        if len(of) == 1 and name not in weights:
            titles[name] = of[0]
        weights |= {name} if of else set()
    fixed = frozenset(name for name in names if name not in weights)
    return Stored(fixed, frozenset(weights), titles)


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


def _said(item: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in item.metadata_props}


def _folded(entries: dict[str, str]) -> list[str]:
    """The names that the exporter computed a tensor from; the file may say anything."""
    try:
        found = ast.literal_eval(entries.get(FOLDED, "[]"))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []
