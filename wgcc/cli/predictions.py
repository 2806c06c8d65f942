"""What the access model predicts for the dispatches of a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wgcc.access.devices import Device, seconds
from wgcc.access.model import access_or_none

if TYPE_CHECKING:
    from wgcc_runtime.plan import Dispatch, Plan


def predicted_ms(
    folder: Path, plan: Plan, dispatches: Sequence[Dispatch], device: Device
) -> list[float]:
    """The least milliseconds of each dispatch on a device; 0 where the kernel cannot be read."""
    known: dict[tuple[object, ...], float] = {}
    found = []
    for dispatch in dispatches:
        bound = [binding.size for binding in dispatch.bindings]
        key = (dispatch.kernel, *dispatch.grid, *bound)
        if key not in known:
            file = folder / "kernels" / plan.kernels[dispatch.kernel].file
            text = file.read_text(encoding="utf-8")
            access = access_or_none(text, dispatch.grid, dispatch.flops, bound)
            known[key] = 1000 * seconds(access, device) if access else 0.0
        found.append(known[key])
    return found
