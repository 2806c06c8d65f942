"""Functions read back: instruction by instruction, with constants hoisted, and as text.

V8's newer compiler takes nothing out of loops: a vector of constants would be three instructions in
every iteration, so that each is made once, before the loops. Others do it themselves.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import isinf, isnan

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
    TYPE_NAMES,
    V128,
    Instruction,
    leb128,
    read_signed,
    read_unsigned,
)
from wgcc.backends.wasm.encoding.module import WasmFunction

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


_SPLATS = {"f32x4.splat": "f32.const", "i32x4.splat": "i32.const"}
_GET, _SET = b"\x20", b"\x21"


def hoist_constants(function: WasmFunction) -> None:
    code = bytes(function.code)
    made: dict[bytes, int] = {}
    pieces, kept = [], 0
    for start, end in _constants_in_loops(code):
        constant = code[start:end]
        if constant not in made:
            made[constant] = function.local("constant", V128)
        pieces += [code[kept:start], _GET + leb128(made[constant])]
        kept = end
    first = [constant + _SET + leb128(local) for constant, local in made.items()]
    function.code = bytearray(b"".join([*first, *pieces, code[kept:]]))


def _constants_in_loops(code: bytes) -> Iterator[tuple[int, int]]:
    """The start and end of each constant: a vector, or a number that is put into all lanes."""
    blocks: list[str] = []
    for (before, _, number), (start, end, name) in pairwise([(0, 0, ""), *decode(code)]):
        if name in ("block", "loop", "if"):
            blocks.append(name)
        elif name == "end":
            blocks.pop()
        elif "loop" not in blocks:
            continue
        elif name == "v128.const":
            yield start, end
        elif _SPLATS.get(name) == number:
            yield before, end


def wat(function: WasmFunction, functions: Sequence[WasmFunction] = ()) -> str:
    """`functions` are those of the module: calls are written with their names."""
    names = _local_names(function)
    kinds = [TYPE_NAMES[kind] for kind in function.local_types]
    declared = [f"{name} {kind}" for name, kind in zip(names, kinds, strict=True)]
    arity = len(function.params)
    head = [f"(func {_identifier(function.name)}"]
    head += [f"(param {item})" for item in declared[:arity]]
    head += [f"(result {TYPE_NAMES[kind]})" for kind in function.results]
    lines = [" ".join(head), *(f"  (local {item})" for item in declared[arity:])]
    return "\n".join([*lines, *_instruction_lines(function, names, functions), ")"]) + "\n"


def _instruction_lines(
    function: WasmFunction, names: Sequence[str], functions: Sequence[WasmFunction]
) -> Iterator[str]:
    depth = 1
    for instruction, immediates in _decode(bytes(function.code), names, functions):
        depth -= instruction.name in ("else", "end")
        yield "  " * depth + " ".join([instruction.name, *immediates])
        depth += instruction.name in ("block", "loop", "if", "else")


def _decode(
    code: bytes, names: Sequence[str], functions: Sequence[WasmFunction]
) -> Iterator[tuple[Instruction, list[str]]]:
    at = 0
    while at < len(code):
        instruction = instruction_at(code, at)
        at += len(instruction.code)
        read = _IMMEDIATES.get(instruction.immediates)
        texts, at = read(code, at) if read else ([], at)
        if instruction.name.startswith("local."):
            texts = [names[int(texts[0])]]
        if instruction.name == "call" and int(texts[0]) < len(functions):
            texts = [_identifier(functions[int(texts[0])].name)]
        if instruction.align and f"align={instruction.align}" in texts:
            texts.remove(f"align={instruction.align}")
        yield instruction, texts


def _local_names(function: WasmFunction) -> list[str]:
    """Each name once: a second local of the same name gets its number behind it."""
    seen: set[str] = set()
    names = []
    for index, name in enumerate(function.local_names):
        text = _identifier(name)
        text = f"{text}.{index}" if text in seen else text
        seen.add(text)
        names.append(text)
    return names


def _identifier(name: str) -> str:
    return "$" + re.sub(r"[^\w.!#$%&'*+/:<=>?@^`|~-]", "_", name, flags=re.ASCII)


_Texts = tuple[list[str], int]


def _index(code: bytes, at: int) -> _Texts:
    number, at = read_unsigned(code, at)
    return [str(number)], at


def _signed_number(code: bytes, at: int) -> _Texts:
    number, at = read_signed(code, at)
    return [str(number)], at


def _memory(code: bytes, at: int) -> _Texts:
    align, at = read_unsigned(code, at)
    offset, at = read_unsigned(code, at)
    return [*([f"offset={offset}"] if offset else []), f"align={1 << align}"], at


def _memory_lane(code: bytes, at: int) -> _Texts:
    texts, at = _memory(code, at)
    return [*texts, str(code[at])], at + 1


def _block(code: bytes, at: int) -> _Texts:
    return ([f"(result {TYPE_NAMES[code[at]]})"] if code[at] in TYPE_NAMES else []), at + 1


def _label_names(code: bytes, at: int) -> _Texts:
    count, at = read_unsigned(code, at)
    texts = []
    for _ in range(count + 1):
        label, at = read_unsigned(code, at)
        texts.append(str(label))
    return texts, at


def _f32(code: bytes, at: int) -> _Texts:
    (number,) = struct.unpack_from("<f", code, at)
    return [_float(number, 9)], at + 4


def _f64(code: bytes, at: int) -> _Texts:
    (number,) = struct.unpack_from("<d", code, at)
    return [_float(number, 17)], at + 8


def _float(number: float, digits: int) -> str:
    if isnan(number):
        return "nan"
    return ("-inf" if number < 0 else "inf") if isinf(number) else f"{number:.{digits}g}"


def _v128(code: bytes, at: int) -> _Texts:
    words = struct.unpack_from("<4I", code, at)
    return ["i32x4", *(f"0x{word:08x}" for word in words)], at + 16


def _shuffle(code: bytes, at: int) -> _Texts:
    return [str(byte) for byte in code[at : at + 16]], at + 16


_IMMEDIATES: dict[int, Callable[[bytes, int], _Texts]] = {
    INDEX: _index,
    LANE: _index,
    CONST_I32: _signed_number,
    CONST_I64: _signed_number,
    CONST_F32: _f32,
    CONST_F64: _f64,
    CONST_V128: _v128,
    SHUFFLE: _shuffle,
    MEMORY: _memory,
    MEMORY_LANE: _memory_lane,
    BLOCK: _block,
    LABELS: _label_names,
}
