"""The cards that kernels are compiled for, and the WGSL compilers on the way there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """`names` are those of its compiler, `routes` what translates WGSL for it."""

    card: str
    names: tuple[str, ...]
    routes: tuple[str, ...]


TARGETS: Mapping[str, Target] = {
    "rdna2": Target("Radeon RX 6800 (navi21)", ("navi21",), ("naga", "tint")),
    # Mesa called it otherwise before the card was sold.
    "rdna3": Target("Radeon RX 7900 XTX (navi31)", ("navi31", "gfx1100"), ("naga", "tint")),
    "sm_89": Target("GeForce RTX 4070 (sm_89)", ("sm_89",), ("nvrtc",)),
}
# Ada: registers, threads, workgroups and bytes of shared memory of a multiprocessor, which has four
# schedulers. Each workgroup takes 1 kB for the system.
_REGISTERS, _WARPS, _GROUPS, _SHARED, _SYSTEM, _SCHEDULERS = 65536, 48, 24, 102400, 1024, 4
_WARP, _GRAIN = 32, 8


def warps_per_scheduler(registers: int, shared: int, threads: int) -> int:
    """How many warps can be resident at once."""
    warps = -(-threads // _WARP)
    per_thread = -(-max(registers, 1) // _GRAIN) * _GRAIN
    by_registers = _REGISTERS // (per_thread * _WARP) // warps
    groups = min(_GROUPS, _WARPS // warps, by_registers, _SHARED // (shared + _SYSTEM))
    return groups * warps // _SCHEDULERS
