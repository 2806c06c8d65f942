"""The least time of each entry on some GPUs: its kernels, and starting them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wgcc.access.devices import DEVICES, LAUNCH_SECONDS
from wgcc.schedule.kernel import GPU

Facts = dict[str, Any]


def step_times(kernels: Iterable[Facts]) -> str:
    """A line for each entry whose kernels can all be modelled, below the table of kernels."""
    entries: dict[str, list[Facts]] = {}
    for facts in kernels:
        for item in facts["dispatches"]:
            if item["profile"] == GPU:
                entries.setdefault(item["entry"], []).append(item)
    lines = [
        _line(entry, items)
        for entry, items in entries.items()
        if all(item["access"] for item in items)
    ]
    return "".join(f"\n{line}" for line in ["", *lines]) if lines else ""


def _line(entry: str, items: list[Facts]) -> str:
    launches = sum(item["times"] for item in items)
    starting = 1e6 * LAUNCH_SECONDS * launches
    times = (f"{device.short} {starting + _work(items, device.name):,.0f} us" for device in DEVICES)
    return (
        f"{entry}: at least {', '.join(times)}, of which {starting:,.0f} us start {launches:,} "
        f"dispatches (assumed: {1e6 * LAUNCH_SECONDS:.0f} us each)"
    )


def _work(items: list[Facts], device: str) -> float:
    times = (item["times"] * item["access"]["us"][device] for item in items)
    return float(sum(times))
