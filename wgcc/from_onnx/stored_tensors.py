"""Makes every stored float tensor an initialiser of the whole graph, wherever a file keeps it.

Exporters put weights into `Constant` nodes or into inner graphs as well; all that follows tells
weights by their being initialisers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

FLOATS = (1, 10, 11, 16)


def gather_weights(model: Any) -> None:
    """Single numbers stay where they are: they are parts of formulas."""
    graph = model.graph
    defined = _defined_names(graph)
    for inner in (graph, *_inner_graphs(graph)):
        _from_constants(inner)
    for inner in _inner_graphs(graph):
        _move_out(inner, graph, defined)


def _from_constants(graph: Any) -> None:
    returned = {port.name for port in graph.output}
    kept = []
    for node in graph.node:
        tensor = _stored_tensor(node)
        if tensor is None or node.output[0] in returned:
            kept.append(node)
            continue
        copy = graph.initializer.add()
        copy.CopyFrom(tensor)
        copy.name = node.output[0]
    if len(kept) < len(graph.node):
        del graph.node[:]
        graph.node.extend(kept)


def _stored_tensor(node: Any) -> Any:
    """The weights in a `Constant` node."""
    from onnx.helper import make_tensor

    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or not node.output:
        return None
    for item in node.attribute:
        if item.name == "value" and item.HasField("t") and _is_weight(item.t):
            return item.t
        if item.name == "value_floats" and len(item.floats) > 1:
            return make_tensor("", FLOATS[0], [len(item.floats)], item.floats)
    return None


def _is_weight(tensor: Any) -> bool:
    elements = 1
    for size in tensor.dims:
        elements *= size
    return tensor.data_type in FLOATS and elements > 1


def _inner_graphs(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g
                yield from _inner_graphs(attribute.g)


def _defined_names(graph: Any) -> Counter[str]:
    names: Counter[str] = Counter()
    for held in (graph, *_inner_graphs(graph)):
        names.update({port.name for port in held.input} | {item.name for item in held.initializer})
        names.update(name for node in held.node for name in node.output)
    return names


def _move_out(inner: Any, graph: Any, defined: Counter[str]) -> None:
    """Branches may use one name for two tensors, which get names of their own."""
    ports = {port.name for port in (*inner.input, *inner.output)}
    renamed: dict[str, str] = {}
    kept = []
    for tensor in inner.initializer:
        if tensor.name in ports or not _is_weight(tensor):
            kept.append(tensor)
            continue
        copy = graph.initializer.add()
        copy.CopyFrom(tensor)
        if defined[tensor.name] > 1:
            copy.name = next(
                name for number in count(2) if (name := f"{tensor.name}_{number}") not in defined
            )
            defined[copy.name] += 1
            renamed[tensor.name] = copy.name
    del inner.initializer[:]
    inner.initializer.extend(kept)
    _rename_reads(inner, renamed)


def _rename_reads(graph: Any, names: Mapping[str, str]) -> None:
    if not names:
        return
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name in names:
                node.input[place] = names[name]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                own = {tensor.name for tensor in attribute.g.initializer}
                _rename_reads(attribute.g, {k: v for k, v in names.items() if k not in own})
