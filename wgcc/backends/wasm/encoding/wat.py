"""Functions as text, read back instruction by instruction."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from math import isinf, isnan

from wgcc.backends.wasm.encoding.instructions import (
    BLOCK,
    CONST_F32,
    CONST_F64,
    CONST_I32,
    CONST_I64,
    CONST_V128,
    INDEX,
    LABELS,
    LANE,
    MEMORY,
    MEMORY_LANE,
    SHUFFLE,
    TYPE_NAMES,
    Instruction,
    instruction_at,
    read_signed,
    read_unsigned,
)
from wgcc.backends.wasm.encoding.module import WasmFunction


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
