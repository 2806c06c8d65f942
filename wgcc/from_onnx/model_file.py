"""Reads an ONNX file, which may be damaged or hostile: nothing is read outside its folder.

Every stored float tensor becomes an initialiser of the whole graph, wherever the file keeps it:
exporters put weights into `Constant` nodes or into inner graphs as well, and all that follows tells
weights by their being initialisers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from wgcc.errors import WgError
from wgcc.lazy_numpy import Array

# What protobuf itself can hold, and what weights beside it may take.
LARGEST_FILE = 1 << 31
LARGEST_DATA = 1 << 33
LARGEST_SPARSE = 1 << 27


def need_onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.reference
        import onnx.shape_inference
    except ImportError as error:
        text = f"the package onnx cannot be imported ({error}): pip install 'wgcc[onnx]'"
        raise WgError(text) from None
    return onnx


def read_model(path: Path) -> Any:
    """The `ModelProto`, with the contents of its external data."""
    from wgcc_runtime.regular_files import check_regular

    onnx = need_onnx()
    check_regular(path)
    if path.stat().st_size > LARGEST_FILE:
        raise WgError(f"{path}: larger than 2 GB, which no ONNX file can be")
    try:
        model = onnx.load_model(path, load_external_data=False)
    except Exception as error:
        raise WgError(f"{path} cannot be read as an ONNX model: {_first_line(error)}") from None
    if not model.graph.node and not model.graph.output:
        raise WgError(f"{path} holds no graph: it is no ONNX model, or it was cut off")
    _load_external(onnx, model, path)
    model = _with_shapes(onnx, model)
    try:
        onnx.checker.check_model(model)
    except Exception as error:
        raise WgError(f"{path} is not a valid ONNX model: {_first_line(error)}") from None
    gather_weights(model)
    return model


def _with_shapes(onnx: Any, model: Any) -> Any:
    """Outputs without a shape get the one that follows."""
    if all(port.type.tensor_type.HasField("shape") for port in model.graph.output):
        return model
    try:
        return onnx.shape_inference.infer_shapes(model)
    except Exception:
        return model


def _load_external(onnx: Any, model: Any, path: Path) -> None:
    from onnx.external_data_helper import uses_external_data

    from wgcc_runtime.regular_files import check_regular

    outside = [tensor for tensor in model.graph.initializer if uses_external_data(tensor)]
    places = {_external_place(tensor, path) for tensor in outside}
    for place in places:
        check_regular(place)
    if sum(place.stat().st_size for place in places) > LARGEST_DATA:
        raise WgError(f"{path}: its external data take more than 8 GB")
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except Exception as error:
        raise WgError(f"{path}: external data cannot be read: {_first_line(error)}") from None


def _external_place(tensor: Any, path: Path) -> Path:
    """The file of a tensor's data, which must be in the folder of the model."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    name = entries.get("location", "")
    folder = path.parent.resolve()
    place: Path = (folder / name).resolve()
    if not name or folder not in place.parents:
        raise WgError(f"{path}: `{tensor.name}` is stored in `{name}`, outside the model's folder")
    if not place.is_file():
        raise WgError(f"{path}: `{tensor.name}` is stored in `{name}`, which is not there")
    return place


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__


def initialisers(graph: Any) -> dict[str, Array]:
    """The stored tensors of a graph by name."""
    from onnx.numpy_helper import to_array

    arrays = {tensor.name: to_array(tensor) for tensor in graph.initializer}
    for sparse in graph.sparse_initializer:
        arrays[sparse.values.name] = _dense(sparse)
    return arrays


def _dense(sparse: Any) -> Array:
    from onnx.numpy_helper import to_array

    from wgcc.lazy_numpy import np

    values, places = to_array(sparse.values), to_array(sparse.indices)
    if np.prod(sparse.dims, dtype=float) > LARGEST_SPARSE:
        raise WgError(f"`{sparse.values.name}` is sparse, and too large to be stored as a whole")
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    index = np.unravel_index(places, dense.shape) if places.ndim == 1 else tuple(places.transpose())
    dense[index] = values
    return dense


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
