"""Five GPUs by their published figures, and the least time a kernel can take on each.

A *unit* is what runs a workgroup: a streaming multiprocessor, a GPU core, a dual subslice, a shader
processor, a compute unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Device:
    """`lanes`: multiply-adds of f32 a unit makes in a cycle; `shared`: bytes of workgroup memory.

    `cached`: bytes a unit loads from the caches in a cycle; `bandwidth` of memory in GB/s.
    """

    name: str
    short: str
    vendor: tuple[str, ...]
    units: int
    ghz: float
    bandwidth: float
    lanes: int = 128
    shared: int = 128
    cached: int = 64

    @property
    def tflops(self) -> float:
        """The peak of f32."""
        return 2 * self.units * self.lanes * self.ghz / 1000


# Clocks, units and bandwidths: the vendors' data sheets. Bytes of a cycle: the table "On-Chip
# Memory" of github.com/philipturner/metal-benchmarks for Apple, Nvidia and AMD; the L3/SLM figures
# of Intel's "Xe-LP architecture" overview; Adreno's are not published and taken like Apple's.
DEVICES = (
    # 5888 lanes at the boost clock: 29.1 TFLOP/s, GDDR6X 192 bit.
    Device("RTX 4070", "4070", ("nvidia", "geforce"), units=46, ghz=2.475, bandwidth=504.2),
    # 10 cores: 3.58 TFLOP/s, LPDDR5-6400 128 bit.
    Device("Apple M2", "M2", ("apple",), units=10, ghz=1.398, bandwidth=102.4, shared=64),
    # Iris Xe of a Core i7-1165G7, 96 execution units: 2.0 TFLOP/s, LPDDR4x-4267 128 bit.
    Device("Intel Xe 96EU", "Xe", ("intel",), units=6, ghz=1.3, bandwidth=68.3),
    # Snapdragon 8 Gen 2, 6 shader processors of 256 lanes: 2.1 TFLOP/s, LPDDR5X-8400 64 bit.
    Device("Adreno 740", "740", ("adreno", "qualcomm"), 6, ghz=0.68, bandwidth=67.2, lanes=256),
    # Ryzen 7 7840U, 12 compute units of 64 lanes (128 where two instructions issue together, which
    # products do): 8.3 TFLOP/s, DDR5-5600 128 bit.
    Device("Radeon 780M", "780M", ("amd", "radeon"), units=12, ghz=2.7, bandwidth=89.6),
)
SUBGROUP = 32
# A dispatch takes so long to start and to hand over to the next, which waits for it: assumed, where
# `wgcc bench` has not measured it.
LAUNCH_SECONDS = 5e-6
# The parts of a device that can be the busiest.
BANDWIDTH, ARITHMETIC, SHARED, CACHES = "bandwidth", "arithmetic", "workgroup memory", "caches"


def device_like(adapter: str) -> Device:
    """The device that an adapter's name is most like: the same model, or the same vendor."""
    name = adapter.lower()
    models = (device for device in DEVICES if device.short.lower() in name)
    vendors = (device for device in DEVICES if any(word in name for word in device.vendor))
    return next(models, next(vendors, DEVICES[0]))


class Work(Protocol):
    """The work of one dispatch, all workgroups together; instructions are those of subgroups."""

    @property
    def workgroups(self) -> int: ...
    @property
    def instructions(self) -> float: ...
    @property
    def traffic(self) -> float: ...
    @property
    def least_bytes(self) -> int: ...
    def shared_cycles(self, per_cycle: int) -> float: ...


def busy_seconds(work: Work, device: Device) -> dict[str, float]:
    """How long each part of a device works for a dispatch: memory, or what a unit has.

    Units share the workgroups evenly, so that the last ones may leave some idle. The time to start
    a dispatch is not part of it, nor is latency that too few threads leave uncovered.
    """
    waves = ceil(work.workgroups / device.units)
    second = waves / work.workgroups / device.ghz / 1e9  # of a cycle that all workgroups share
    return {
        BANDWIDTH: work.least_bytes / device.bandwidth / 1e9,
        ARITHMETIC: second * work.instructions * SUBGROUP / device.lanes,
        SHARED: second * work.shared_cycles(device.shared),
        CACHES: second * work.traffic / device.cached,
    }


def seconds(work: Work, device: Device) -> float:
    """The time of the busiest part: the roofline."""
    return max(busy_seconds(work, device).values())
