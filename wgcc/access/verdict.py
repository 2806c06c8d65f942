"""Says what holds a kernel back on a GPU, and what would help.

The access model says which part of the device is the busiest; a measurement, where there is one of
that device, says whether the kernel waits instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Protocol

from wgcc.access.devices import (
    ARITHMETIC,
    BANDWIDTH,
    CACHES,
    LAUNCH_SECONDS,
    SHARED,
    SUBGROUP,
    Device,
    Work,
    busy_seconds,
)

LAUNCH, LATENCY = "launch", "latency"
# A unit covers the latency of memory if it has this many threads to choose from.
COVERING_THREADS = 256
# A kernel that takes this many times as long as its busiest part waits most of the time.
WAITING = 3.0
# Cycles until the next instruction can use a result: assumed, as the least of common GPUs.
DEPENDENT_CYCLES = 4
UNCOALESCED, PADDED = 1.5, 0.8


class Figures(Work, Protocol):
    """Those of `Access` that advice is about."""

    @property
    def threads(self) -> int: ...
    @property
    def sector_ratio(self) -> float: ...
    @property
    def bank_conflicts(self) -> int: ...
    @property
    def barriers(self) -> float: ...
    @property
    def useful(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """`kind`: `launch`, `latency`, or the busiest part of the device; `why` has the figures."""

    kind: str
    why: str
    advice: str


def judge(work: Figures, device: Device, measured: float | None = None) -> Verdict:
    """The verdict on one dispatch; `measured` are its seconds on that device."""
    parts = busy_seconds(work, device)
    part = max(parts, key=lambda name: parts[name])
    least = parts[part]
    ratio = measured / least if measured and least else 1.0
    chain = _chain_seconds(work, device)
    if chain > LAUNCH_SECONDS and chain > WAITING * least:
        why = f"each thread has {_us(chain)} of instructions, one after the other"
        return Verdict(LATENCY, why, "shorter loops in a thread, such as those of a scan")
    if _is_launch(least, measured):
        why = f"{_us(least)} of work, about {_us(LAUNCH_SECONDS)} to start it"
        return Verdict(LAUNCH, why, "a larger batch, or fewer and larger ops")
    resident = work.threads * ceil(work.workgroups / device.units)
    if work.workgroups < device.units or resident < COVERING_THREADS or ratio > WAITING:
        return _latency(work, device, resident, ratio)
    return Verdict(part, _why(work, part, least), _advice(work, part))


def _is_launch(least: float, measured: float | None) -> bool:
    """A measured time includes the start, so one that is much longer has another reason."""
    if least >= LAUNCH_SECONDS:
        return False
    return measured is None or measured < WAITING * LAUNCH_SECONDS


def _chain_seconds(work: Figures, device: Device) -> float:
    """How long the instructions of one thread take if each waits for the one before."""
    subgroups = work.workgroups * ceil(work.threads / SUBGROUP)
    return work.instructions / subgroups * DEPENDENT_CYCLES / device.ghz / 1e9


def _latency(work: Figures, device: Device, resident: int, ratio: float) -> Verdict:
    if work.workgroups < device.units:
        why = f"{work.workgroups} workgroups for {device.units} units"
        return Verdict(LATENCY, why, "more rows or a larger batch, so that all units have work")
    if resident < COVERING_THREADS:
        why = f"{resident} threads on a unit, {COVERING_THREADS} hide latency"
        return Verdict(LATENCY, why, "a larger batch, or wgcc tune for other tiles")
    why = f"{ratio:.1f} x the least time, {work.barriers:.0f} barriers"
    return Verdict(LATENCY, why, "wgcc tune for other tiles and workgroups")


def _why(work: Figures, part: str, least: float) -> str:
    figures = {
        BANDWIDTH: f"{work.least_bytes / 1e6:.2f} MB of memory",
        ARITHMETIC: f"{32 * work.instructions / 1e6:.2f} M instructions of lanes",
        SHARED: f"its loads and stores, {work.bank_conflicts} lanes to a bank,",
        CACHES: f"{work.traffic / 1e6:.2f} MB through caches",
    }
    return f"{figures[part]} take {_us(least)}"


def _advice(work: Figures, part: str) -> str:
    if part in (BANDWIDTH, CACHES) and work.sector_ratio > UNCOALESCED:
        return f"an order of axes in which neighbours are read together ({work.sector_ratio:.1f} x)"
    if part == ARITHMETIC and work.useful is not None and work.useful < PADDED:
        return f"sizes that are multiples of the tiles: {work.useful:.0%} is useful"
    return {
        BANDWIDTH: "precision = f16, which halves stored values; fewer stored values",
        ARITHMETIC: "smaller sizes: the units are busy",
        SHARED: "wgcc tune for other tiles",
        CACHES: "wgcc tune for larger tiles, which load less often",
    }[part]


def _us(time: float) -> str:
    return f"{1e6 * time:.1f} us"
