"""The figures of the access model for a kernel, each with its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wgcc.access.model import Access, access_or_none
from wgcc.kernel.parse import readable_module

Figure = tuple[str, str, str]


def kernel_figures(plan: Mapping[str, Any], name: str, text: str) -> list[Figure]:
    """Name, value and meaning of each figure, of the dispatch of the kernel that binds most."""
    number = next(i for i, kernel in enumerate(plan["kernels"]) if kernel["name"] == name)
    dispatches = [
        dispatch
        for entry in plan["entries"].values()
        for dispatch in entry["dispatches"]
        if dispatch["kernel"] == number
    ]
    if not dispatches:
        return []
    most = max(dispatches, key=lambda dispatch: sum(_bound(dispatch)))
    flops = most.get("flops", 0)
    access = access_or_none(readable_module(text), tuple(most["grid"]), flops, _bound(most))
    return [] if access is None else [*_figures(access), *_times(access)]


def _bound(dispatch: Mapping[str, Any]) -> list[int]:
    return [binding["size"] for binding in dispatch["bindings"]]


def _figures(access: Access) -> list[Figure]:
    useful = f"{access.useful:.0%}" if access.useful else "all"
    return [
        ("workgroups", f"{access.workgroups:,}", f"each of {access.threads} threads"),
        ("registers", f"{access.registers}",
         "of a thread: its variables that are alive at once, and a few more"),
        ("bytes", f"{access.least_bytes:,}", "what memory must give and take, each byte once"),
        ("moved", f"{access.traffic:,.0f}", "bytes that go through the caches"),
        ("sectors", f"{access.sector_ratio:.2f}",
         "32-byte pieces of memory touched, in units of the least possible (1.00: coalesced)"),
        ("banks", f"{access.bank_conflicts}",
         "how many lanes wait for one bank of workgroup memory (1: none waits)"),
        ("barriers", f"{access.barriers:.0f}", "at which a workgroup waits for its threads"),
        ("useful", useful, "share of the arithmetic that is no padding of tiles"),
    ]  # fmt: skip


def _times(access: Access) -> list[Figure]:
    return [
        (device, f"{1e6 * seconds:.1f} µs", "the least time there, without that to start")
        for device, seconds in access.seconds.items()
    ]
