"""A budget of GPU memory: how often to try with fewer activations in memory, and when to stop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wgcc.errors import WgError
from wgcc.ir.program import Program
from wgcc.schedule.kernel import WORD, Schedule

# In how many parts activations are computed, of which all but the last are rematerialised: more
# parts store less between them, and hold less at once, up to a point.
REMAT_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
# The memory that rematerialisation does not save.
UNDO = "undo"
FIXED = {
    "params": "parameters",
    "state": "state",
    "grads": "gradients",
    "copies": "f16 copies of weights",
    UNDO: "copies to undo a failed step",
}


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program after all passes, its schedule, and in how many parts its activations are."""

    program: Program
    schedule: Schedule
    remat_parts: int = 1

    @property
    def bytes(self) -> int:
        words = sum(buffer.words for buffer in self.schedule.buffers)
        return words * WORD + self.schedule.copied_bytes

    @property
    def fixed(self) -> int:
        """The bytes that rematerialisation does not save."""
        words = sum(b.words for b in self.schedule.buffers if b.role != "temp")
        return words * WORD + self.schedule.copied_bytes


def first_within(memory: int, attempts: Iterable[Lowered]) -> Lowered:
    """The first that needs no more than `memory` bytes; stops where no later one can."""
    tried: list[Lowered] = []
    for attempt in attempts:
        if attempt.bytes <= memory:
            return attempt
        tried.append(attempt)
        if attempt.fixed > memory:
            break
    raise _too_small(min(tried, key=lambda found: found.bytes), memory)


def _too_small(best: Lowered, memory: int) -> WgError:
    roles = {name: 0 for name in FIXED}
    for buffer in best.schedule.buffers:
        if buffer.role in roles:
            roles[buffer.role] += buffer.words * WORD
    roles[UNDO] = best.schedule.copied_bytes
    fixed = ", ".join(f"{FIXED[name]} {_megabytes(n)}" for name, n in roles.items() if n)
    again = " even when activations are computed again" if best.remat_parts > 1 else ""
    needed, how = best.bytes, again
    if best.fixed > memory:
        needed, how = best.fixed, " without any activations"
    return WgError(
        f"the model needs {_megabytes(needed)} of GPU memory{how}, more than the "
        f"{_megabytes(memory)} it may use ({fixed}); make the batch or the model smaller, "
        "or allow more with --memory"
    )


def _megabytes(number: int) -> str:
    return f"{number / 1e6:.3g} MB" if number < 1e9 else f"{number / 1e6:.0f} MB"
