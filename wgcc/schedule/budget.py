"""Schedule a program within a budget of GPU memory, computing activations again where needed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wgcc.errors import WgError
from wgcc.ir.program import Program
from wgcc.passes.checkpoint import checkpoint
from wgcc.passes.pipeline import run_passes
from wgcc.schedule.kernel import WORD, Schedule
from wgcc.schedule.schedule import schedule

# More segments keep less between them, and hold less at once, up to a point.
SEGMENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
# The memory that no segments save.
FIXED = {"params": "parameters", "state": "state", "grads": "gradients"}


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program after all passes, its schedule, and in how many segments it is differentiated."""

    program: Program
    schedule: Schedule
    segments: int = 1

    @property
    def bytes(self) -> int:
        return sum(buffer.words for buffer in self.schedule.buffers) * WORD

    @property
    def fixed(self) -> int:
        """The bytes that no number of segments saves."""
        return sum(b.words for b in self.schedule.buffers if b.role != "temp") * WORD


def lower(program: Program, candidates: bool = False, memory: int | None = None) -> Lowered:
    """With as few segments as will do so that it needs no more than `memory` bytes."""
    if memory is None:
        return _lowered(program, candidates, 1)
    tried: list[Lowered] = []
    for segments in SEGMENTS:
        tried.append(_lowered(program, candidates, segments))
        if tried[-1].bytes <= memory:
            return tried[-1]
        if tried[-1].fixed > memory:
            break
    raise _too_small(min(tried, key=lambda found: found.bytes), memory)


def _lowered(program: Program, candidates: bool, segments: int) -> Lowered:
    if segments > 1:
        entries = {name: checkpoint(graph, segments) for name, graph in program.entries.items()}
        program = replace(program, entries=entries)
    done = run_passes(program)
    return Lowered(done, schedule(done, candidates), segments)


def _too_small(best: Lowered, memory: int) -> WgError:
    roles = {name: 0 for name in FIXED}
    for buffer in best.schedule.buffers:
        if buffer.role in roles:
            roles[buffer.role] += buffer.words * WORD
    fixed = ", ".join(f"{FIXED[name]} {_megabytes(n)}" for name, n in roles.items() if n)
    again = " even when activations are computed again" if best.segments > 1 else ""
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
