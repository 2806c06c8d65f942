"""Checks a kernel of a plan, for the grids it is started with and the counters it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wgcc.bundle.plan import all_dispatches
from wgcc.kernel.check import KernelReport, check
from wgcc.kernel.limits import MAX_STORAGE
from wgcc.kernel.tree import Module


def check_kernel(plan: Mapping[str, Any], name: str, module: Module) -> KernelReport:
    """`module` is the kernel of this name, or another form of it."""
    number = next(i for i, kernel in enumerate(plan["kernels"]) if kernel["name"] == name)
    grid, rounds = (1, 1, 1), 1
    for entry, at, launch in _launches(plan):
        if launch["kernel"] == number:
            x, y, z = map(max, grid, launch["grid"])
            grid, rounds = (x, y, z), max(rounds, _rounds(entry, at))
    uniforms = (v.name for v in module.variables.values() if v.space == "uniform")
    limits = plan.get("requires", {}).get("limits", {})
    most = max(MAX_STORAGE, limits.get("maxStorageBuffersPerShaderStage", 0))
    return check(module, grid, dict.fromkeys(uniforms, rounds), most)


def _launches(plan: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], int, Any]]:
    """Each dispatch with its entry and its number there; those of profiles too."""
    for name, entry in plan["entries"].items():
        for at, dispatch in enumerate(all_dispatches(entry)):
            yield entry, at, dispatch
        for profile in plan.get("profiles", {}).values():
            for item in profile.get(name, ()):
                yield entry, item["dispatch"], item
    for dispatch in plan.get("copies", ()):
        yield {}, 0, dispatch


def _rounds(entry: Mapping[str, Any], at: int) -> int:
    """The most that a counter of a loop around a dispatch counts."""
    loops = entry.get("repeats", ())
    inside = (x["rounds"] for x in loops if 0 <= at - x["first"] < x["count"])
    return max(inside, default=1)
