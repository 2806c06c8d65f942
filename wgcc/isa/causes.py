"""Why instructions of a loop are there: which of them compute, and what causes the others.

Clamps of indices, counters of loops, addresses and conversions are told apart by opcode, and
integers by what uses them: that which memory is addressed by, or that which ends the loop.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from wgcc.isa.listing import MachineInstruction

# In the order of tables. `arithmetic` and `fma` are what the kernel is for.
CAUSES = ("fma", "arithmetic", "load", "clamp", "loop", "address", "conversion", "move")

_REGISTER = re.compile(r"\b(U?R\d+|U?P\d|[vs]\d+|vcc|exec|scc)\b|\b([vs])\[(\d+):(\d+)\]")
_BY_OPCODE = (
    ("clamp", r"[vs]_min(3|max)?_u32\w*|[UV]?IMNMX\S*"),
    ("conversion", r"v_cvt_\w+|v_pack_b32_f16\w*|[IF]2[IF]P?(\.\S+)?|I2FP\S*|PRMT\S*"),
    ("move", r"[vs]_mov\w*|v_accvgpr\w*|U?MOV\S*|IMAD\.MOV\S*|HFMA2\.MMA\S*|CS2R\S*|v_dual_mov\w*"),
    ("loop", r"[vs]_cmp\w*|s_(and|or|xor|andn2|and_not1)_b64|s_\w*saveexec\w*|U?(ISETP|PLOP3)\S*"),
)
_INTEGER = re.compile(
    r"[vs]_(add|sub|subrev|mul|mad|lshl|lshr|ashr|and|or|xor|bfe|bfi|alignbit|addc|not)\w*_"
    r"([iu](16|24|32|64)|b32|b64|u32_u24)\w*|[vs]_(lshl|add|and|or|xad)\w*_[ub]32\w*|s_addk_\w+|"
    r"U?(IMAD|IADD3?|LEA|SHF|LOP3|SHL|SHR|IABS|BMSK|SGXT)\b\S*"
)
_MEMORY = ("shared", "memory")


def causes(loop: Sequence[MachineInstruction]) -> list[str]:
    """One of `CAUSES` for each instruction, or "" for what only waits."""
    addressing = _inputs_of(loop, (item for item in loop if item.kind in _MEMORY))
    ending = _inputs_of(loop, (item for item in loop if _opcode_cause(item) == "loop"))
    return [_cause(item, addressing, ending) for item in loop]


def count_causes(loop: Sequence[MachineInstruction]) -> dict[str, int]:
    counts = Counter(causes(loop))
    return {cause: counts[cause] for cause in CAUSES if counts[cause]}


def _cause(item: MachineInstruction, addressing: set[str], ending: set[str]) -> str:
    if item.kind == "wait":
        return ""
    if item.kind in ("fma", "special"):
        return "fma" if item.kind == "fma" else "arithmetic"
    if item.kind in _MEMORY:
        return "load"
    if item.kind == "branch":
        return "loop"
    by_opcode = _opcode_cause(item)
    if by_opcode:
        return by_opcode
    if not _INTEGER.match(item.opcode) and item.kind != "scalar":
        return "arithmetic"
    written = set(_registers(item.text)[:1])
    return "loop" if written & ending and not written & addressing else "address"


def _opcode_cause(item: MachineInstruction) -> str:
    return next((cause for cause, text in _BY_OPCODE if re.fullmatch(text, item.opcode)), "")


def _inputs_of(loop: Sequence[MachineInstruction], users: Iterable[MachineInstruction]) -> set[str]:
    """The registers that the users read, and those from which these are computed in the loop."""
    wanted: set[str] = set()
    for user in users:
        wanted.update(_read(user))
    size = -1
    while size != len(wanted):
        size = len(wanted)
        for item in reversed(loop):
            names = _registers(item.text)
            if _INTEGER.match(item.opcode) and names and names[0] in wanted:
                wanted.update(names[1:])
    return wanted


def _read(item: MachineInstruction) -> list[str]:
    """The registers of its address, if it is an access; else all: scalar compares write none."""
    if item.kind not in _MEMORY:
        return _registers(item.text)
    if item.opcode[0].isupper() and "[" in item.text:
        return _registers(item.text[item.text.index("[") :])
    return _registers(item.text)[1:]


def _registers(text: str) -> list[str]:
    names: list[str] = []
    for single, kind, first, last in _REGISTER.findall(text):
        numbers = range(int(first), int(last) + 1) if kind else ()
        names += [single] if single else [f"{kind}{number}" for number in numbers]
    return names
