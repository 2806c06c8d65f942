"""The options of reading, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wgcc_runtime.data.preparation import Preparation
from wgcc_runtime.errors import WgccError

_CHOICES: dict[str, tuple[Any, ...]] = {
    "missing": ("drop", "mean"),
    "decimal": (None, ",", "."),
    "unknown": (None, "drop"),
    "scale": (False, True),
    "encode": (False, True),
}


@dataclass(frozen=True, slots=True)
class Options:
    """See `wgcc/DATA.md`. `columns` are names for the one input, or names by input."""

    target: str | None = None
    columns: Sequence[str] | Mapping[str, Sequence[str]] | None = None
    scale: bool = False
    encode: bool = False
    missing: str = "drop"
    decimal: str | None = None
    unknown: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    preparation: Preparation | None = None

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                known = " or ".join(repr(choice) for choice in allowed if choice is not None)
                raise WgccError("data", f"`{name}` is {known}, not {value!r}", name)

    def column_names(self) -> set[str]:
        """The columns that the options name."""
        names = {self.target} if self.target is not None else set()
        if isinstance(self.columns, Mapping):
            return names.union(*self.columns.values())
        return names.union(self.columns or ())
