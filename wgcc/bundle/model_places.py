"""The place of a dispatch in the model: the layer (`blocks.1.attn`) whose work it does.

A plan names what a dispatch stores last, which may be a value of the layer around (`x_2`); the
parameters that it reads tell the layer then. The name of a kernel tells nothing, because equal
layers share their kernels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from wgcc.bundle.plan import all_dispatches
from wgcc.ir.dtypes import words_of
from wgcc.ir.places import WORD

# How names of gradients begin.
GRADIENT = "d."
_UPDATE = re.compile(r"\w+_update")
OPTIMIZER, ENTRY = "optimizer", "entry"


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """`layer`: `entry` for what the entry computes itself; `is_backward`: of a gradient."""

    layer: str
    is_backward: bool = False

    def __str__(self) -> str:
        return f"{self.layer} backward" if self.is_backward else self.layer


def model_places(plan: Mapping[str, Any], entry: str) -> list[ModelPlace]:
    """One for each dispatch of an entry, then those of its guard."""
    # Names of state that wgcc adds, for optimizers and random numbers, contain a `/`.
    owners = {
        (spec["buffer"], spec["offset"], WORD * words_of(spec["dtype"], prod(spec["shape"]))): name
        for name, spec in plan["tensors"].items()
        if spec["role"] in ("param", "state") and "/" not in name
    }
    layers = {layer for name in owners.values() for layer in _layers(name)}
    dispatches = all_dispatches(plan["entries"][entry])
    return [_place(plan, dispatch, owners, layers) for dispatch in dispatches]


def _layers(name: str) -> Iterator[str]:
    """`blocks.0.w` → `blocks`, `blocks.0`"""
    parts = name.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts)))


def _place(
    plan: Mapping[str, Any],
    dispatch: Mapping[str, Any],
    owners: Mapping[tuple[int, int, int], str],
    layers: set[str],
) -> ModelPlace:
    label, bindings = dispatch.get("label", ""), dispatch["bindings"]
    if label.split(".")[0] in plan.get("optimizer", {}) or _UPDATE.fullmatch(label):
        return ModelPlace(OPTIMIZER)
    own = label.removeprefix(GRADIENT)
    around = max((x for x in layers if f"{own}.".startswith(f"{x}.")), key=len, default="")
    # The largest parameter that a dispatch reads inside this layer names a layer further inside.
    bound = [(b["size"], owners.get((b["buffer"], b["offset"], b["size"]), "")) for b in bindings]
    inside = [item for item in bound if item[1] and item[1].startswith(around and f"{around}.")]
    _, largest = max(inside, default=(0, ""))
    layer = largest.rpartition(".")[0] or around or ENTRY
    return ModelPlace(layer, label.startswith(GRADIENT))
