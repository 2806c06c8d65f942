"""Large weights that no entry changes: the host does not keep them, because the device has them.

Where they are needed there again, each is read from its file. Mirrors read_again.js.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from wgcc_runtime.arrays import Array
from wgcc_runtime.plan import Plan


class Unkept(Mapping[str, Array]):
    """Arrays by name as the model takes them; those in `names` are read and made each time."""

    def __init__(
        self, arrays: Mapping[str, Array], names: frozenset[str], fit: Callable[[str, Array], Array]
    ) -> None:
        self._arrays, self.names, self._fit = arrays, names & arrays.keys(), fit
        self._kept: dict[str, Array] = {}
        for name, array in arrays.items():
            # This also checks all of them.
            fitted = fit(name, array)
            if name not in self.names:
                self._kept[name] = fitted

    def __getitem__(self, name: str) -> Array:
        return self._kept[name] if name in self._kept else self._fit(name, self._arrays[name])

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def fixed_names(plan: Plan) -> frozenset[str]:
    """Parameters that are given from outside, and that no entry writes."""
    persistent = plan.persistent()
    written = {name for entry in plan.entries.values() for name in entry.writes}
    copied = {tensor.init.get("of") for tensor in persistent.values()}
    are_given = bool(plan.weights) and "seed" not in plan.weights
    return frozenset(
        name
        for name, tensor in persistent.items()
        if tensor.role == "param"
        and (are_given or tensor.init["kind"] == "external")
        and name not in written | copied
    )
