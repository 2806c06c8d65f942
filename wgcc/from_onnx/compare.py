"""Inputs for an ONNX model and what was made of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wgcc.errors import WgError
from wgcc.from_onnx.convert import Converted
from wgcc.from_onnx.values import Member, Shape, Traced, Value
from wgcc.lazy_numpy import Array, np
from wgcc.syntax import ast

DATA_FOLDER = "test_data_set_0"
# Statements that move numbers or copy them.
SAME_NUMBERS = ("reshape", "rearrange", "expand", "i32")


def own_inputs(path: Path, converted: Converted) -> dict[str, Array] | None:
    """Inputs that are stored beside a model, as collections of ONNX models do."""
    from onnx import TensorProto
    from onnx.numpy_helper import to_array

    found: dict[str, Array] = {}
    stored = {tensor.name for tensor in converted.model.graph.initializer}
    ports = [port.name for port in converted.model.graph.input if port.name not in stored]
    for place, name in enumerate(ports):
        if name not in converted.traced.inputs:
            continue
        file = path.parent / DATA_FOLDER / f"input_{place}.pb"
        if not file.is_file():
            return None
        try:
            tensor = TensorProto.FromString(file.read_bytes())
            if tensor.data_location == TensorProto.EXTERNAL:
                return None
            array = to_array(tensor)
        except Exception:
            return None
        if tuple(array.shape) != converted.traced.inputs[name].shape:
            return None
        found[name] = array
    return found


def given_inputs(path: Path, converted: Converted) -> dict[str, Array]:
    """Arrays of a file, by the names of the ONNX file or of the model file."""
    from wgcc_runtime.data.array_files import read_arrays

    arrays = read_arrays(path)
    own, kinds = converted.written.inputs, _element_types(converted.model)
    used: dict[str, Array] = {}
    for name, value in converted.traced.inputs.items():
        key = name if name in arrays else own[name]
        if key not in arrays:
            raise WgError(f"{path} has no array `{name}`; it has {', '.join(arrays) or 'none'}")
        array = arrays.pop(key)
        if tuple(array.shape) != value.shape:
            raise WgError(
                f"{path}: `{key}` is {list(array.shape)}, but the input is {list(value.shape)}"
            )
        used[name] = _as_kind(array, kinds[name], f"{path}: `{key}`")
    if arrays:
        raise WgError(f"{path}: no input is called {', '.join(arrays)}: they are {', '.join(own)}")
    return used


def _as_kind(array: Array, kind: Any, what: str) -> Array:
    """Whole numbers may be given for floats, but not the other way."""
    if array.dtype.kind not in "fiub" or (np.dtype(kind).kind in "iub" and array.dtype.kind == "f"):
        raise WgError(f"{what} has elements of {array.dtype}, but the input has {np.dtype(kind)}")
    return array.astype(kind)


def random_inputs(converted: Converted, limits: Mapping[str, tuple[int, int]]) -> dict[str, Array]:
    """`limits`: the least and the largest whole number that an input may hold."""
    generator = np.random.default_rng(0)
    kinds = _element_types(converted.model)
    found: dict[str, Array] = {}
    for name, value in converted.traced.inputs.items():
        array = draw(generator, value.dtype, value.shape, limits.get(name))
        found[name] = array.astype(kinds[name])
    return found


def draw(generator: Any, dtype: str, shape: Shape, limits: tuple[int, int] | None) -> Array:
    """Random numbers for an input: normal floats, whole numbers within limits, 0 and 1 without."""
    if dtype in ("f32", "f16"):
        return np.asarray(generator.standard_normal(shape))
    low, high = limits or (0, 1)
    return np.asarray(generator.integers(low, high, shape, endpoint=True))


def compared_numbers(traced: Traced) -> dict[str, tuple[int, int]]:
    """The least and the largest number that a model compares an input of whole numbers with.

    A table of all codes, which many models make a 1 and zeros of a code with, says what codes are.
    """
    found: dict[str, tuple[int, int]] = {}
    origin = {value: name for name, value in traced.inputs.items() if value.dtype != "f32"}
    for item in traced.statements:
        sources = [
            origin[part] for part in item.parts if isinstance(part, Value) and part in origin
        ]
        if not sources:
            continue
        if item.alias_of is not None or item.function in SAME_NUMBERS:
            origin |= dict.fromkeys(item.outputs, sources[0])
        if isinstance(item.tree, ast.Binary) and item.tree.op == "==":
            for table in (part.arrays[""] for part in item.parts if isinstance(part, Member)):
                found[sources[0]] = int(table.min()), int(table.max())
    return found


def _element_types(model: Any) -> dict[str, Any]:
    from onnx.helper import tensor_dtype_to_np_dtype

    return {
        port.name: tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
        for port in model.graph.input
    }
