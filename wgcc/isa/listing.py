"""Reads listings of ACO (Radeon) and nvdisasm (NVIDIA): instructions, their kinds, their loops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# The kinds of instruction, in the order of tables. `wait` takes no slot of arithmetic on Radeons.
KINDS = ("fma", "vector", "special", "shared", "memory", "scalar", "branch", "wait")

_LABEL = re.compile(r"(BB\d+|\.L_x?_?\d+):")
_NVIDIA = re.compile(r"/\*[0-9a-f]+\*/\s+((?:@!?U?P\w+\s+)?([A-Z][\w.]+).*?);?\s*$")
_RADEON = re.compile(r"([svdbgfi][a-z]*_\w+)[^;]*")
_SOURCE = re.compile(r'//## File "[^"]*", line (\d+)')
_TARGET = re.compile(r"BB\d+|\.L_x?_?\d+")

_RADEON_KINDS = (
    ("fma", r"v_(dual_)?(fma|fmac|mac|mad|pk_fma|pk_mad|dot)(?!\w*_[iu]\d)\w*"),
    ("special", r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_\w+"),
    ("vector", r"v_\w+"),
    ("shared", r"ds_\w+"),
    ("memory", r"(buffer|global|flat|scratch|image)_\w+|s_(buffer_)?load_\w+"),
    ("branch", r"s_(cbranch|branch|endpgm|setpc)\w*"),
    ("wait", r"s_(waitcnt|wait_|delay|nop|clause|barrier|inst_prefetch|set_inst|code_end)\w*"),
    ("scalar", r"\w+"),
)
_NVIDIA_KINDS = (
    ("fma", r"(FFMA2?|HFMA2)(\.(?!MMA)\w+)*"),
    ("special", r"MUFU(\.\w+)*"),
    ("shared", r"(LDS|STS|ATOMS|LDSM)(\.\w+)*"),
    ("memory", r"(LDG|STG|LD|ST|RED|ATOMG|ATOM|LDL|STL|LDC)(\.\w+)*"),
    ("branch", r"(BRA|EXIT|BSSY|BSYNC|WARPSYNC|RET|CALL|BRX|BREAK)(\.\w+)*"),
    ("wait", r"(NOP|BAR|DEPBAR|LDGDEPBAR|MEMBAR|ERRBAR|CCTL)(\.\w+)*"),
    ("scalar", r"(U(?!NDEF)\w+|S2UR|R2UR)(\.\w+)*"),
    ("vector", r"[\w.]+"),
)


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """`line` is that of the source, where the compiler says it."""

    opcode: str
    text: str
    kind: str
    line: int | None = None

    @property
    def multiply_adds(self) -> int:
        """How many of one lane: some instructions do two at once, or two to a pair."""
        if self.kind != "fma":
            return 0
        pairs = len(re.findall(r"v_dual_fmac|v_dual_fma", self.text)) if "::" in self.text else 1
        return pairs * (2 if re.search(r"pk_|HFMA2|FFMA2|dot2", self.opcode) else 1)


@dataclass(frozen=True, slots=True)
class Listing:
    instructions: tuple[MachineInstruction, ...]
    labels: dict[str, int]

    def loops(self) -> list[tuple[int, int]]:
        """The first and the last instruction of each: a jump back to a label."""
        ends: dict[int, int] = {}
        for at, instruction in enumerate(self.instructions):
            if instruction.kind == "branch":
                for target in _TARGET.findall(instruction.text):
                    first = self.labels.get(target, at + 1)
                    if first < at:
                        ends[first] = max(ends.get(first, 0), at)
        return sorted(ends.items())

    def hot_loop(self) -> Sequence[MachineInstruction]:
        """The innermost loop with most multiply-adds, else with most instructions; or all."""
        loops = self.loops()
        inner = [loop for loop in loops if not any(is_inside(other, loop) for other in loops)]
        if not inner:
            return self.instructions
        first, last = max(inner, key=lambda loop: (self.multiply_adds(*loop), loop[1] - loop[0]))
        return self.instructions[first : last + 1]

    def multiply_adds(self, first: int, last: int) -> int:
        return sum(item.multiply_adds for item in self.instructions[first : last + 1])


def is_inside(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return inner != outer and outer[0] <= inner[0] and inner[1] <= outer[1]


def parse_listing(text: str) -> Listing:
    instructions: list[MachineInstruction] = []
    labels: dict[str, int] = {}
    line: int | None = None
    for row in map(str.strip, text.splitlines()):
        label, source = _LABEL.match(row), _SOURCE.match(row)
        if label:
            labels[label[1]] = len(instructions)
        elif source:
            line = int(source[1])
        else:
            instructions += _instruction(row, line)
    return Listing(tuple(instructions), labels)


def _instruction(row: str, line: int | None) -> list[MachineInstruction]:
    if match := _NVIDIA.match(row):
        kind = _kind(_NVIDIA_KINDS, match[2])
        # A multiply-add of zeros is a move.
        if kind == "fma" and re.search(r"-RZ, RZ", row):
            kind = "vector"
        return [MachineInstruction(match[2], match[1], kind, line)]
    if match := _RADEON.match(row):
        return [
            MachineInstruction(match[1], match[0].strip(), _kind(_RADEON_KINDS, match[1]), line)
        ]
    return []


def _kind(kinds: Sequence[tuple[str, str]], opcode: str) -> str:
    return next(kind for kind, pattern in kinds if re.fullmatch(pattern, opcode))
