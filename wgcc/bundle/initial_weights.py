"""The initial values of parameters and state: drawn from the seed, or read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wgcc.errors import WgError
from wgcc.ir.program import Program, Tensor
from wgcc.ir.state_names import is_optimizer_state
from wgcc.lazy_numpy import Array
from wgcc.spelling import did_you_mean


def initial_weights(program: Program) -> dict[str, Array]:
    """Drawn values of parameters and state; moments start at zero and are not stored."""
    from wgcc_runtime.initial import initial_values

    found = {}
    for name, tensor in {**program.params, **program.state}.items():
        # An `external` tensor has no values until the caller gives them.
        if is_optimizer_state(name) or tensor.init.kind in ("copy", "external"):
            continue
        record = {"kind": tensor.init.kind, "args": tensor.init.args, "values": tensor.init.values}
        found[name] = initial_values(
            record, tensor.type.shape, program.seed, name, tensor.type.dtype
        )
    return found


def read_weights(path: Path, program: Program) -> dict[str, Array]:
    """Arrays by the names of parameters and state; moments of optimizers are left out.

    They are converted to what the GPU has in memory, with the same checks as in the runtimes.
    """
    from wgcc_runtime.errors import WgccError
    from wgcc_runtime.weights import load_weights

    try:
        loaded = load_weights(path)[0]
        return {
            name: _fitting(path, array, _named(path, name, program))
            for name, array in loaded.items()
            if not is_optimizer_state(name)
        }
    except WgccError as error:
        raise WgError(error.message) from None


def tensors_of(program: Program, names: Mapping[str, Array]) -> dict[str, Tensor]:
    return {name: program.params.get(name) or program.state[name] for name in names}


def _named(path: Path, name: str, program: Program) -> Tensor:
    tensor = program.params.get(name) or program.state.get(name)
    if tensor is None:
        near = did_you_mean(name, [*program.params, *program.state])
        advice = f"; did you mean {near[0]}?" if near else ""
        raise WgError(f"{path} holds {name}, which is not a parameter of {program.name}{advice}")
    return tensor


def _fitting(path: Path, array: Array, tensor: Tensor) -> Array:
    from wgcc_runtime.arrays import convert

    if tuple(array.shape) != tensor.type.shape:
        raise WgError(
            f"{path}: {tensor.name} has shape {list(array.shape)}, the model needs {tensor.type}"
        )
    return convert(array, tensor.type.dtype, f"{path}: {tensor.name}")
