"""Asks the access model about the dispatches of a bundle's entry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wgcc.access.devices import DEVICES, Device, device_like
from wgcc.access.model import Access, access_or_none
from wgcc.kernel.parse import readable_module

if TYPE_CHECKING:
    from wgcc_runtime.model import Model
    from wgcc_runtime.plan import Dispatch, Plan

# Which of the modelled GPUs may be named on the command line.
SHORT_NAMES = tuple(device.short for device in DEVICES)


def accesses(folder: Path, plan: Plan, dispatches: Sequence[Dispatch]) -> list[Access | None]:
    """The model of each dispatch; None where somebody made a kernel that it cannot read."""
    known: dict[tuple[object, ...], Access | None] = {}
    models = []
    for dispatch in dispatches:
        bound = [binding.size for binding in dispatch.bindings]
        key = (dispatch.kernel, *dispatch.grid, dispatch.flops, *bound)
        if key not in known:
            file = folder / "kernels" / plan.kernels[dispatch.kernel].file
            kernel = readable_module(file.read_text(encoding="utf-8"))
            known[key] = access_or_none(kernel, dispatch.grid, dispatch.flops, bound)
        models.append(known[key])
    return models


def runs_like(model: Model, short: str | None = None) -> tuple[Device, bool]:
    """The GPU to model, and whether times that are measured on this machine are times of it.

    Software adapters and the twin are like no GPU: for them the model stands alone.
    """
    from wgcc_runtime.device import is_software

    named = next((device for device in DEVICES if device.short == short), None)
    is_gpu = not model.is_twin and not is_software(model.device_name, "")
    return named or device_like(model.device_name), is_gpu and named is None
