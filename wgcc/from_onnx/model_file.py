"""Reads an ONNX file, which may be damaged or hostile: nothing is read outside its folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wgcc.errors import WgError
from wgcc.from_onnx.names import word
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
    onnx = need_onnx()
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

    outside = [tensor for tensor in model.graph.initializer if uses_external_data(tensor)]
    places = {_external_place(tensor, path) for tensor in outside}
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

    found = {tensor.name: to_array(tensor) for tensor in graph.initializer}
    for sparse in graph.sparse_initializer:
        found[sparse.values.name] = _dense(sparse)
    return found


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


def fix_sizes(model: Any, path: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """Gives every symbolic size of the inputs its number; the sizes by name, in order."""
    from wgcc.spelling import did_you_mean

    used: dict[str, int] = {}
    missing: dict[str, str] = {}
    stored = {tensor.name for tensor in model.graph.initializer}
    for port in model.graph.input:
        if port.name in stored or not port.type.HasField("tensor_type"):
            continue
        for place, dim in enumerate(port.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                continue
            name = word(dim.dim_param or f"{port.name}_{place}")
            if name in sizes:
                used[name] = dim.dim_value = sizes[name]
            else:
                missing.setdefault(name, port.name)
    for name in sizes:
        if name not in used:
            known = [*used, *missing]
            hint = "".join(f"; did you mean {word}?" for word in did_you_mean(name, known)[:1])
            raise WgError(f"{path}: --set {name}: no input has a size of this name{hint}")
    if missing:
        wanted = ", ".join(f"{name} (of `{port}`)" for name, port in missing.items())
        give = " ".join(f"--set {shlex.quote(f'{name}=1')}" for name in missing)
        raise WgError(f"{path}: these sizes are not fixed: {wanted}; give them numbers: {give}")
    return used
