"""Inputs whose numbers are given: they become constants, and what depends on them is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wgcc.errors import WgError
from wgcc.from_onnx.input_sizes import open_sizes
from wgcc.lazy_numpy import Array, np


def fixed_arrays(
    model: Any, path: str, numbers: Mapping[str, Sequence[float]], sizes: Mapping[str, int]
) -> dict[str, Array]:
    """One number fills the whole input; several must be as many as it has elements."""
    stored = {tensor.name for tensor in model.graph.initializer}
    ports = {port.name: port for port in model.graph.input if port.name not in stored}
    named = {(size.port, size.axis): (size.title, size.name) for size in open_sizes(model)}
    arrays = {}
    for name, values in numbers.items():
        if name not in ports:
            names = ", ".join(ports)
            raise WgError(f"{path}: --input {name}: no input is called so; they are {names}")
        shape = []
        for axis, dim in enumerate(ports[name].type.tensor_type.shape.dim):
            titles = named.get((name, axis), ())
            given = [sizes[title] for title in titles if title in sizes]
            shape.append(given[0] if given else dim.dim_value if not titles else 0)
        arrays[name] = _filled(f"{path}: --input {name}", ports[name], shape, values)
    return arrays


def _filled(what: str, port: Any, shape: list[int], values: Sequence[float]) -> Array:
    from onnx.helper import tensor_dtype_to_np_dtype

    kind = np.dtype(tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type))
    if len(shape) == 1 and not shape[0]:
        shape = [len(values)]
    elements = int(np.prod(shape, dtype=np.int64))
    if 0 in shape:
        raise WgError(f"{what}: give its open sizes with --set, too")
    if len(values) not in (1, elements):
        raise WgError(f"{what}: it has {elements:,} elements {shape}, but {len(values)} are given")
    array = np.array(values, np.float64)
    if kind.kind in "iu" and (array != np.round(array)).any():
        raise WgError(f"{what}: it has whole numbers")
    return (
        np.full(shape, values[0], kind)
        if len(values) == 1
        else np.array(values, kind).reshape(shape)
    )
