"""Asks GPU compilers about kernels: `report` gives one record per kernel and way to the card."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import prod
from pathlib import Path
from typing import Any

from wgcc.access.model import workgroup_size
from wgcc.isa import tools
from wgcc.isa.causes import count_causes
from wgcc.isa.listing import KINDS, Listing, parse_listing
from wgcc.isa.loads import loads_at_once
from wgcc.isa.nvidia.compile import compile_kernels
from wgcc.isa.radv.compile import compile_files
from wgcc.isa.spirv.translate import translate
from wgcc.isa.targets import TARGETS, warps_per_scheduler
from wgcc.isa.tiles import NVIDIA_SLOTS, RADEON_SLOTS, fma_share, tile_share
from wgcc.kernel.parse import readable_module


@dataclass(frozen=True, slots=True)
class CompilerReport:
    """A kernel as one compiler made it, or the `error` that it gave.

    `spills` are registers that do not fit; `shared` bytes of a workgroup; `waves` those that a SIMD
    holds at once, of 64 lanes (on NVIDIA the warps of a scheduler). `hot` counts the instructions
    of the hot loop by kind, `causes` by why they are there. `share` is that of multiply-adds among
    the slots of that loop, `tile` among those of a whole tile, if the kernel is a tiled product.
    `loads` is how many of that loop's loads from memory are under way at once.
    """

    kernel: str
    target: str
    route: str
    threads: int = 0
    registers: int = 0
    spills: int = 0
    shared: int = 0
    waves: int = 0
    instructions: int = 0
    hot: dict[str, int] = field(default_factory=dict)
    causes: dict[str, int] = field(default_factory=dict)
    share: float = 0.0
    tile: float | None = None
    loads: int = 0
    error: str = ""
    listing: Listing | None = None
    source: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """For JSON: all but the listing."""
        named = {"kernel": self.kernel, "target": self.target, "route": self.route}
        if self.error:
            return {**named, "error": self.error}
        left_out = ("listing", "source", "error")
        fields_ = (item.name for item in fields(self) if item.name not in left_out)
        return {name: getattr(self, name) for name in fields_}


def report(
    kernels: Mapping[str, str], target: str, routes: Sequence[str] | None = None
) -> list[CompilerReport]:
    """In the order of the kernels. Routes that are not installed here are left out, but not all."""
    chosen = TARGETS[target].routes if routes is None else tuple(routes)
    usable = [route for route in chosen if not tools.missing(_tool(route))]
    if not usable:
        tools.require(_tool(chosen[0]))
    reports = [item for route in usable for item in _ask(kernels, target, route)]
    order = {name: at for at, name in enumerate(kernels)}
    return sorted(reports, key=lambda item: order[item.kernel])


def _tool(route: str) -> str:
    return "naga" if route == "trusted" else route


def _ask(kernels: Mapping[str, str], target: str, route: str) -> Iterator[CompilerReport]:
    if route == "nvrtc":
        yield from _ask_nvidia(kernels, target)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files, errors = translate(kernels, route, folder)
        results = compile_files(files, TARGETS[target].names) if files else {}
    for kernel, text in kernels.items():
        result = results.get(kernel, {"error": errors.get(kernel, "the driver said nothing")})
        if "error" in result:
            yield CompilerReport(kernel, target, route, error=result["error"])
        else:
            yield _radeon(kernel, text, target, route, result)


def _radeon(
    kernel: str, text: str, target: str, route: str, result: dict[str, Any]
) -> CompilerReport:
    numbers = result["statistics"]
    return _analyse(
        CompilerReport(
            kernel,
            target,
            route,
            registers=int(numbers["VGPRs"]),
            spills=int(numbers["Spilled VGPRs"] + numbers.get("Spilled SGPRs", 0)),
            shared=int(numbers["LDS size"]),
            # Mesa counts waves of 32 lanes.
            waves=int(numbers["Subgroups per SIMD"]) // 2,
        ),
        text,
        result["listing"],
        RADEON_SLOTS,
    )


def _ask_nvidia(kernels: Mapping[str, str], target: str) -> Iterator[CompilerReport]:
    results, errors = compile_kernels(kernels, TARGETS[target].names[0])
    for kernel, text in kernels.items():
        if kernel in errors:
            yield CompilerReport(kernel, target, "nvrtc", error=errors[kernel])
            continue
        made = results[kernel]
        waves = warps_per_scheduler(made.registers, made.shared, _threads(text))
        plain = CompilerReport(
            kernel, target, "nvrtc", registers=made.registers, spills=made.spills,
            shared=made.shared, waves=waves, source=tuple(made.source.splitlines()),
        )  # fmt: skip
        yield _analyse(plain, text, made.listing, NVIDIA_SLOTS)


def _analyse(
    plain: CompilerReport, text: str, listing_text: str, slots: Sequence[str]
) -> CompilerReport:
    listing = parse_listing(listing_text)
    hot = listing.hot_loop()
    kinds = Counter(item.kind for item in hot)
    return replace(
        plain,
        threads=_threads(text),
        instructions=len(listing.instructions),
        hot={kind: kinds[kind] for kind in KINDS if kinds[kind]},
        causes=count_causes(hot),
        share=fma_share(((item, 1) for item in hot), slots),
        tile=tile_share(text, listing, slots),
        loads=loads_at_once(hot),
        listing=listing,
    )


def _threads(text: str) -> int:
    """The threads of a workgroup; 0 where somebody made a kernel that wgcc cannot read."""
    module = readable_module(text)
    return prod(workgroup_size(module)) if "main" in module.functions else 0
