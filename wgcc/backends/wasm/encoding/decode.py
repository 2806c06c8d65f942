"""Where each instruction of a function starts and ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from wgcc.backends.wasm.encoding.encoder import read_unsigned
from wgcc.backends.wasm.encoding.instructions import (
    BLOCK,
    CONST_F32,
    CONST_F64,
    CONST_I32,
    CONST_I64,
    CONST_V128,
    INDEX,
    INSTRUCTIONS,
    LABELS,
    LANE,
    MEMORY,
    MEMORY_LANE,
    SHUFFLE,
    Instruction,
)

_PREFIXES = (0xFC, 0xFD, 0xFE)


def instruction_at(code: bytes, at: int) -> Instruction:
    return _BY_OPCODE[_opcode(code, at)]


def decode(code: bytes) -> Iterator[tuple[int, int, str]]:
    """The start, the end and the name of each instruction."""
    at = 0
    while at < len(code):
        instruction = instruction_at(code, at)
        skip = _SKIPS.get(instruction.immediates)
        end = at + len(instruction.code)
        end = skip(code, end) if skip else end
        yield at, end, instruction.name
        at = end


def _opcode(code: bytes, at: int) -> tuple[int, int]:
    return (code[at], read_unsigned(code, at + 1)[0] if code[at] in _PREFIXES else 0)


_BY_OPCODE = {_opcode(i.code + b"\0", 0): i for i in INSTRUCTIONS.values()}


def _number(code: bytes, at: int) -> int:
    while code[at] >= 0x80:
        at += 1
    return at + 1


def _numbers(code: bytes, at: int) -> int:
    return _number(code, _number(code, at))


def _labels(code: bytes, at: int) -> int:
    count, at = read_unsigned(code, at)
    for _ in range(count + 1):
        at = _number(code, at)
    return at


def _bytes(count: int) -> Callable[[bytes, int], int]:
    return lambda code, at: at + count


_SKIPS: dict[int, Callable[[bytes, int], int]] = {
    **dict.fromkeys((INDEX, LANE, CONST_I32, CONST_I64), _number),
    **dict.fromkeys((CONST_V128, SHUFFLE), _bytes(16)),
    CONST_F32: _bytes(4),
    CONST_F64: _bytes(8),
    MEMORY: _numbers,
    MEMORY_LANE: lambda code, at: _numbers(code, at) + 1,
    BLOCK: _bytes(1),
    LABELS: _labels,
}
