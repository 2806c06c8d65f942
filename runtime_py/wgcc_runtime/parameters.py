"""`model.parameters`: parameters and state as a dict, read and written by name."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, NoReturn

from wgcc_runtime.arrays import Array
from wgcc_runtime.errors import WgccError, did_you_mean

if TYPE_CHECKING:
    from wgcc_runtime.model import Model


class Parameters(MutableMapping[str, Array]):
    """Iterates over parameters; state and moments of optimizers can be named, too.

    Reading gives a copy; assigning writes to the model.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    def __getitem__(self, name: str) -> Array:
        return self._model._read([self._model.plan.tensors[self._check_name(name)]])[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._model.load_params({self._check_name(name): value}, strict=False)

    def __delitem__(self, name: str) -> NoReturn:
        raise WgccError("name", f"`{name}` cannot be removed: the model has it", name)

    def __iter__(self) -> Iterator[str]:
        tensors = self._model.plan.tensors
        return (name for name, tensor in tensors.items() if tensor.role == "param")

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._model.plan.persistent()

    def __repr__(self) -> str:
        tensors = self._model.plan.tensors
        return "\n".join(f"{name}: {tensors[name]}" for name in self)

    def _check_name(self, name: str) -> str:
        tensors = self._model.plan.persistent()
        if name not in tensors:
            near = did_you_mean(str(name), tensors)
            raise WgccError("name", f"the model has no parameter `{name}`{near}", str(name))
        return name
