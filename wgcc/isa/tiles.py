"""Counts the instructions of a thread for one tile of a product, its loads and loops included."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from wgcc.isa.listing import Listing, MachineInstruction, is_inside

_CONSTANT = re.compile(r"^const (\w+) = (\d+)u;", re.M)
# How often a loop of loads runs that is not unrolled: a guess.
LOADS = 4
# Slots of instructions: on Radeons those of vectors, which scalars and memory do not take.
RADEON_SLOTS = ("fma", "vector", "special")
NVIDIA_SLOTS = ("fma", "vector", "special", "shared", "memory", "scalar", "branch", "wait")


def fma_share(
    instructions: Iterable[tuple[MachineInstruction, int]], slots: Sequence[str]
) -> float:
    """Multiply-adds among all slots; each instruction comes with how often it is executed."""
    used = multiply_adds = 0
    for item, times in instructions:
        used += times * (item.kind in slots)
        multiply_adds += times * (item.kind == "fma")
    return multiply_adds / used if used else 0.0


def tile_share(text: str, listing: Listing, slots: Sequence[str]) -> float | None:
    """The share of a tiled product (`text` is its WGSL); None of other kernels."""
    numbers = {name: int(value) for name, value in _CONSTANT.findall(text)}
    if not {"TK", "TM", "TN"} <= numbers.keys():
        return None
    wanted = numbers["TK"] * numbers["TM"] * numbers["TN"] // numbers.get("SLICES", 1)
    loops = listing.loops()
    busy = [loop for loop in loops if listing.multiply_adds(*loop)]
    outer = [loop for loop in busy if not any(is_inside(loop, other) for other in busy)]
    if not outer:
        return None
    loop = max(outer, key=lambda loop: listing.multiply_adds(*loop))
    return fma_share(_one_iteration(listing, loop, wanted), slots)


def _one_iteration(
    listing: Listing, outer: tuple[int, int], wanted: int
) -> list[tuple[MachineInstruction, int]]:
    """The instructions of one iteration of the outer loop, and how often each is executed."""
    inner = [loop for loop in listing.loops() if is_inside(loop, outer)]
    own = _own(listing, outer, inner)
    executed = [(item, 1) for item in own]
    unrolled = sum(item.multiply_adds for item in own)
    rest = wanted - (unrolled if unrolled > wanted / LOADS else 0)
    for loop in inner:
        items = _own(listing, loop, inner)
        count = sum(item.multiply_adds for item in items)
        times = max(1, round(rest / count)) if count else LOADS
        executed += [(item, times) for item in items]
    return executed


def _own(
    listing: Listing, loop: tuple[int, int], loops: Sequence[tuple[int, int]]
) -> list[MachineInstruction]:
    """The instructions of a loop that are in none inside it."""
    inside = [other for other in loops if is_inside(other, loop)]
    return [
        item
        for at, item in enumerate(listing.instructions[loop[0] : loop[1] + 1], loop[0])
        if not any(first <= at <= last for first, last in inside)
    ]
