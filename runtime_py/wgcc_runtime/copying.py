"""Copies of models: what `pickle` and `copy` store, and how a model is opened from that.

A copy holds the files that a runtime needs, so it opens where the bundle is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wgcc_runtime.bundle_files import MAX_KERNEL_BYTES, MAX_TWIN_BYTES, Read
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import MAX_PLAN_BYTES, Plan
from wgcc_runtime.values import FILE as DATA
from wgcc_runtime.values import MAX_BYTES as MAX_DATA_BYTES

if TYPE_CHECKING:
    from wgcc_runtime.model import Model

PLAN = "plan.json"
# Weights may be larger than any other file.
MOST_BYTES = 1 << 40


@dataclass(frozen=True, slots=True)
class Files:
    """The `Read` of files in memory."""

    contents: Mapping[str, bytes]

    def __call__(self, name: str, limit: int) -> bytes | None:
        data = self.contents.get(name)
        if data is not None and len(data) > limit:
            raise WgccError("bundle", f"{name} has {len(data):,} bytes; at most {limit:,} are read")
        return data


@dataclass(frozen=True, slots=True)
class Origin:
    """The files that a model was opened from, and the options that a copy is opened with."""

    read: Read
    device: Any
    profile: str | None
    max_bytes: int
    threads: int | None
    checked: bool | None = None
    fast: bool = False

    def copy(self, plan: Plan) -> Origin:
        """The same with its files in memory. A device object is of this process: it is left out."""
        device = self.device if isinstance(self.device, str) else None
        return replace(self, read=_in_memory(self.read, plan), device=device)


def _in_memory(read: Read, plan: Plan) -> Files:
    if isinstance(read, Files):
        return read
    kernels = [f"{folder}/{kernel.file}" for kernel in plan.kernels for folder in _forms(kernel)]
    limits = {
        PLAN: MAX_PLAN_BYTES,
        **dict.fromkeys(kernels, MAX_KERNEL_BYTES),
        DATA: MAX_DATA_BYTES,
    }
    limits |= dict.fromkeys(("weights.safetensors", "constants.safetensors"), MOST_BYTES)
    if plan.twin:
        limits[plan.twin.file] = MAX_TWIN_BYTES
    if plan.tokens:
        limits[plan.tokens.file] = MOST_BYTES
    contents = {name: read(name, limit) for name, limit in limits.items()}
    if contents[PLAN] is None:
        text = "the bundle's folder was moved or deleted: open the model again to copy it"
        raise WgccError("bundle", text, PLAN)
    return Files({name: data for name, data in contents.items() if data is not None})


def _forms(kernel: Any) -> tuple[str, ...]:
    return ("kernels",) if kernel.subgroups is None else ("kernels", "subgroups")


def open_copy(
    kind: type[Model], origin: Origin, given: Any, seed: int | None, words: Any, progress: Any
) -> Model:
    """A model with the values that the copied one had."""
    from wgcc_runtime.loader import open_machine, with_tokens
    from wgcc_runtime.plan import unchecked_plan
    from wgcc_runtime.values import StartValues

    data = origin.read(PLAN, MAX_PLAN_BYTES)
    assert data is not None
    # Whoever unpickles a file trusts it: its plan was checked when the model was opened first.
    plan = with_tokens(unchecked_plan(json.loads(data)), origin.read)
    values = StartValues(plan, origin.read, given or None)
    model = kind(open_machine(plan, origin), values, seed, origin=origin)
    model.set_values(words, progress)
    return model
