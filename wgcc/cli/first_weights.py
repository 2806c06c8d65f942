"""Reads the weights that a bundle shall start with, and checks that they fit the model."""

from __future__ import annotations

from pathlib import Path

from wgcc.errors import WgError
from wgcc.ir.program import Program
from wgcc.lazy_numpy import Array, np
from wgcc.spelling import did_you_mean

_NUMPY = {"f32": "f4", "f16": "f4", "i32": "i4", "u32": "u4", "u8": "u4", "bool": "u4"}


def read_weights(path: Path, program: Program) -> dict[str, Array]:
    """Arrays by the names of parameters and state; moments of optimizers are left out."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        loaded = load_file(path)
    except (SafetensorError, ValueError) as error:
        raise WgError(f"{path} is not a safetensors file: {error}") from error
    return {
        name: _fitting(path, name, array, program)
        for name, array in loaded.items()
        if not name.startswith("opt/")
    }


def _fitting(path: Path, name: str, array: Array, program: Program) -> Array:
    tensor = program.params.get(name) or program.state.get(name)
    if tensor is None:
        near = did_you_mean(name, [*program.params, *program.state])
        advice = f"; did you mean {near[0]}?" if near else ""
        raise WgError(f"{path} holds {name}, which is no parameter of {program.name}{advice}")
    if tuple(array.shape) != tensor.type.shape:
        raise WgError(
            f"{path}: {name} has shape {list(array.shape)}, the model needs {tensor.type}"
        )
    return np.ascontiguousarray(array, dtype=f"<{_NUMPY[tensor.type.dtype]}")
