"""The initial values of parameters and state: drawn from the seed, or read from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from wgcc.errors import WgError
from wgcc.ir.dtypes import DTYPE_TABLE
from wgcc.ir.places import is_optimizer_state
from wgcc.ir.program import Program, Tensor
from wgcc.lazy_numpy import Array
from wgcc.spelling import did_you_mean

Facts = dict[str, Any]


class InitialValues(Mapping[str, Array]):
    """Parameters and state by name: given, or drawn when they are asked for.

    Moments of optimizers start at zero and are not among them; an `external` tensor has no values
    until the caller gives them.
    """

    def __init__(self, program: Program, given: Mapping[str, Array] = {}) -> None:
        self._seed, self._given = program.seed, given
        self._tensors = {
            name: tensor
            for name, tensor in {**program.params, **program.state}.items()
            if not is_optimizer_state(name) and tensor.init.kind not in ("copy", "external")
        }

    @property
    def bytes(self) -> int:
        return sum(DTYPE_TABLE[t.type.dtype].bytes * t.type.size for t in self._tensors.values())

    def __getitem__(self, name: str) -> Array:
        from wgcc_runtime.initial import initial_values

        if name in self._given:
            return self._given[name]
        tensor = self._tensors[name]
        record = {"kind": tensor.init.kind, "args": tensor.init.args, "values": tensor.init.values}
        return initial_values(record, tensor.type.shape, self._seed, name, tensor.type.dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._tensors, *self._given)))

    def __len__(self) -> int:
        return len({*self._tensors, *self._given})


def read_weights(path: Path, program: Program) -> dict[str, Array]:
    return read_checkpoint(path, program)[0]


def read_checkpoint(path: Path, program: Program) -> tuple[dict[str, Array], Facts]:
    """Arrays by the names of parameters and state, and the facts that a checkpoint has.

    Moments of optimizers are left out. Arrays are converted to what the GPU has in memory, with the
    same checks as in the runtimes. Large files are read once: nobody else needs to open them.
    """
    from wgcc_runtime.errors import WgccError
    from wgcc_runtime.weights import load_weights

    try:
        loaded, facts = load_weights(path)
        values = {
            name: _convert(path, array, _tensor(path, name, program))
            for name, array in loaded.items()
            if not is_optimizer_state(name)
        }
        return values, facts
    except WgccError as error:
        raise WgError(error.message) from None


def tensors_of(program: Program, names: Iterable[str]) -> dict[str, Tensor]:
    return {name: program.params.get(name) or program.state[name] for name in names}


def _tensor(path: Path, name: str, program: Program) -> Tensor:
    tensor = program.params.get(name) or program.state.get(name)
    if tensor is None:
        near = did_you_mean(name, [*program.params, *program.state])
        advice = f"; did you mean {near[0]}?" if near else ""
        raise WgError(f"{path} holds {name}, which is not a parameter of {program.name}{advice}")
    return tensor


def _convert(path: Path, array: Array, tensor: Tensor) -> Array:
    from wgcc_runtime.arrays import convert

    if tuple(array.shape) != tensor.type.shape:
        raise WgError(
            f"{path}: {tensor.name} has shape {list(array.shape)}, the model needs {tensor.type}"
        )
    return convert(array, tensor.type.dtype, f"{path}: {tensor.name}")
