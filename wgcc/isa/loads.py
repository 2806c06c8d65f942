"""How many loads from memory a thread has under way at once: what hides the time they take."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wgcc.isa.listing import MachineInstruction

_RADEON_LOAD = re.compile(r"(buffer|global|flat)_load_")
# A Radeon waits until so many of the loads of a wave are left; they come back in order.
_RADEON_WAIT = re.compile(r"vmcnt\((\d+)\)")
_NVIDIA_LOAD = re.compile(r"LDG\.")
_NVIDIA_REGISTER = re.compile(r"\bR(\d+)\b")
_BITS = re.compile(r"\.(64|128)\b")


def loads_at_once(instructions: Sequence[MachineInstruction]) -> int:
    """The most loads after each other of which none is waited for."""
    most, waiting = 0, _Waiting()
    for item in instructions:
        waiting.run(item)
        most = max(most, len(waiting.loads))
    return most


class _Waiting:
    """The loads under way, each as the registers that NVIDIA's compiler waits for."""

    def __init__(self) -> None:
        self.loads: list[frozenset[str]] = []

    def run(self, item: MachineInstruction) -> None:
        wait = _RADEON_WAIT.search(item.text)
        if wait and item.kind == "wait":
            self.loads = self.loads[max(0, len(self.loads) - int(wait[1])) :]
        used = frozenset(_NVIDIA_REGISTER.findall(item.text))
        self.loads = [registers for registers in self.loads if not registers & used]
        if _RADEON_LOAD.match(item.opcode):
            self.loads.append(frozenset())
        elif _NVIDIA_LOAD.match(item.opcode):
            self.loads.append(_registers_of(item))


def _registers_of(item: MachineInstruction) -> frozenset[str]:
    """The first register of the text is where the load goes; wide ones take those after it."""
    first = int(_NVIDIA_REGISTER.findall(item.text)[0])
    bits = _BITS.search(item.opcode)
    count = int(bits[1]) // 32 if bits else 1
    return frozenset(str(first + number) for number in range(count))
