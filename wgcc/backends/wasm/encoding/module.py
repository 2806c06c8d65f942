"""Functions under construction, and the module that they are part of.

    f = Function("twice", params=[("x", F32)], results=[F32])
    f.get(0).f32(2.0).emit("f32.mul")

Blocks are nested; `block`, `loop` and `if_` return a label that `br` and `br_if` take. A module has
functions and exports around one memory that the host provides.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from wgcc.backends.wasm.encoding.instructions import (
    BLOCK,
    CONST_F32,
    CONST_F64,
    CONST_I32,
    CONST_I64,
    CONST_V128,
    F32,
    I32,
    INDEX,
    INSTRUCTIONS,
    LABELS,
    LANE,
    MEMORY,
    MEMORY_LANE,
    PLAIN_CODES,
    SHUFFLE,
    V128,
    Instruction,
    decode,
    f32_bytes,
    function_type,
    leb128,
    section,
    signed_leb128,
    utf8,
    vector,
    wrap_i32,
)

Param = tuple[str, int]
_EMPTY = 0x40
_SPLATS = {F32: "f32x4.splat", I32: "i32x4.splat"}


class WasmFunction:
    def __init__(
        self, name: str, params: Sequence[Param] = (), results: Sequence[int] = ()
    ) -> None:
        self.name = name
        self.params = tuple(kind for _, kind in params)
        self.results = tuple(results)
        self.code = bytearray()
        self.local_names = [name for name, _ in params]
        self.local_types = list(self.params)
        self._blocks: list[str] = []

    def local(self, name: str, kind: int) -> int:
        """A new local, zero at first."""
        self.local_names.append(name)
        self.local_types.append(kind)
        return len(self.local_types) - 1

    def emit(
        self, name: str, *immediates: int | float | bytes, offset: int = 0, align: int | None = None
    ) -> WasmFunction:
        """One instruction; `offset` and `align` (both in bytes) for those that use memory."""
        plain = PLAIN_CODES.get(name)
        if plain is not None:
            self.code += plain
            return self
        instruction = INSTRUCTIONS[name]
        self.code += instruction.code
        if instruction.immediates in (MEMORY, MEMORY_LANE):
            self.code += _alignment(instruction, align) + leb128(offset)
        if instruction.immediates != MEMORY:
            self.code += _encode(instruction, immediates)
        return self

    def get(self, index: int) -> WasmFunction:
        self.code += b"\x20" + leb128(index)
        return self

    def set(self, index: int) -> WasmFunction:
        self.code += b"\x21" + leb128(index)
        return self

    def tee(self, index: int) -> WasmFunction:
        self.code += b"\x22" + leb128(index)
        return self

    def call(self, index: int) -> WasmFunction:
        self.code += b"\x10" + leb128(index)
        return self

    def i32(self, number: int) -> WasmFunction:
        """A constant; a u32 is the i32 with the same bits."""
        self.code += b"\x41" + signed_leb128(wrap_i32(number))
        return self

    def i64(self, number: int) -> WasmFunction:
        self.code += b"\x42" + signed_leb128(number)
        return self

    def f32(self, number: float) -> WasmFunction:
        self.code += b"\x43" + f32_bytes(number)
        return self

    def v128(self, content: bytes) -> WasmFunction:
        return self.emit("v128.const", content)

    def splat(self, number: int | float) -> WasmFunction:
        """A constant in all four lanes: a float as f32, an integer as i32."""
        if isinstance(number, float):
            return self.f32(number).emit("f32x4.splat")
        return self.i32(number).emit("i32x4.splat")

    def widen(self, kind: int) -> WasmFunction:
        """The scalar on the stack into all four lanes."""
        return self.emit(_SPLATS[kind])

    def shuffle(self, *words: int) -> WasmFunction:
        """Four words out of the two vectors on the stack: 0 to 3 of the first, 4 to 7."""
        return self.emit("i8x16.shuffle", bytes(4 * word + at for word in words for at in range(4)))

    def block(self, result: int | None = None) -> int:
        return self._open("block", result)

    def loop(self, result: int | None = None) -> int:
        """A branch to its label starts the next iteration."""
        return self._open("loop", result)

    def if_(self, result: int | None = None) -> int:
        return self._open("if", result)

    def else_(self) -> WasmFunction:
        assert self._blocks and self._blocks[-1] == "if", "else without if"
        self._blocks[-1] = "else"
        return self.emit("else")

    def end(self) -> WasmFunction:
        self._blocks.pop()
        return self.emit("end")

    def br(self, label: int) -> WasmFunction:
        return self.emit("br", self._depth(label))

    def br_if(self, label: int) -> WasmFunction:
        return self.emit("br_if", self._depth(label))

    def _open(self, name: str, result: int | None) -> int:
        self.emit(name, _EMPTY if result is None else result)
        self._blocks.append(name)
        return len(self._blocks)

    def _depth(self, label: int) -> int:
        assert 0 < label <= len(self._blocks), "a branch to a block that has ended"
        return len(self._blocks) - label

    def encode(self) -> bytes:
        """The function's entry in the code section."""
        assert not self._blocks, f"{self.name}: {self._blocks[-1]} without end"
        own = self.local_types[len(self.params) :]
        runs = [leb128(len(list(run))) + bytes([kind]) for kind, run in groupby(own)]
        body = vector(runs) + self.code + b"\x0b"
        return leb128(len(body)) + body


def _alignment(instruction: Instruction, align: int | None) -> bytes:
    """The exponent of the alignment. Vectors claim no more than a word's, as elements are words."""
    if align is None:
        align = instruction.align if instruction.atomic else min(instruction.align, 4)
    return leb128(align.bit_length() - 1)


def _encode(instruction: Instruction, immediates: Sequence[int | float | bytes]) -> bytes:
    kind = instruction.immediates
    if kind == LABELS:
        *labels, default = (int(label) for label in immediates)
        return vector([leb128(label) for label in labels]) + leb128(default)
    (value,) = immediates
    if isinstance(value, bytes):
        assert kind in (CONST_V128, SHUFFLE) and len(value) == 16, instruction.name
        return value
    if kind == CONST_F32:
        return f32_bytes(value)
    if kind == CONST_F64:
        return struct.pack("<d", value)
    number = int(value)
    if kind in (CONST_I32, CONST_I64):
        return signed_leb128(wrap_i32(number) if kind == CONST_I32 else number)
    assert kind in (INDEX, LANE, MEMORY_LANE, BLOCK), instruction.name
    return leb128(number)


HEADER = b"\0asm\x01\0\0\0"
PAGE = 65536
NOT_SHARED, SHARED = 1, 3
_TYPE, _IMPORT, _FUNCTION, _EXPORT, _CODE, _CUSTOM = 1, 2, 3, 7, 10, 0
_FUNCTION_EXPORT = 0


_SPLATTED = {"f32x4.splat": "f32.const", "i32x4.splat": "i32.const"}
_GET, _SET = b"\x20", b"\x21"


def hoist_constants(function: WasmFunction) -> None:
    """V8's newer compiler takes nothing out of loops: a vector of constants would be three
    instructions in every iteration. Others do it themselves.
    """
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
        elif _SPLATTED.get(name) == number:
            yield before, end


class WasmModule:
    """Imports "env"."memory" of `pages` (least, most). Function indices count from 0.

    After `encode`, `memory_flag_offset` is the place of the byte that says whether that memory is
    shared: a host that runs several threads writes SHARED there.
    """

    def __init__(self, pages: tuple[int, int], *, shared: bool = False) -> None:
        self.pages = pages
        self.shared = shared
        self.functions: list[WasmFunction] = []
        self.memory_flag_offset = 0
        self._exports: dict[str, bytes] = {}

    def add(self, function: WasmFunction, export: str | None = None) -> int:
        """The function's index; its instructions may follow later."""
        index = len(self.functions)
        self.functions.append(function)
        if export is not None:
            self._export(export, _FUNCTION_EXPORT, index)
        return index

    def encode(self, *, names: bool = False) -> bytes:
        """The module's bytes; with `names`, what functions and locals are called, for debuggers."""
        types: dict[bytes, int] = {}
        indices = [
            leb128(types.setdefault(function_type(f.params, f.results), len(types)))
            for f in self.functions
        ]
        before = HEADER + section(_TYPE, vector(list(types)))
        imported, flag = self._memory()
        self.memory_flag_offset = len(before) + len(imported) - flag
        out = [before, imported, section(_FUNCTION, vector(indices))]
        out.append(section(_EXPORT, vector(list(self._exports.values()))))
        out.append(section(_CODE, vector([f.encode() for f in self.functions])))
        return b"".join(out) + (self._names() if names else b"")

    def _export(self, name: str, kind: int, index: int) -> None:
        assert name not in self._exports, f"{name} is exported twice"
        self._exports[name] = utf8(name) + bytes([kind]) + leb128(index)

    def _memory(self) -> tuple[bytes, int]:
        """The import section, and how far before its end the limits start."""
        flag = SHARED if self.shared else NOT_SHARED
        limits = bytes([flag]) + leb128(self.pages[0]) + leb128(self.pages[1])
        item = utf8("env") + utf8("memory") + b"\x02" + limits
        return section(_IMPORT, vector([item])), len(limits)

    def _names(self) -> bytes:
        called = [leb128(at) + utf8(f.name) for at, f in enumerate(self.functions)]
        locals_ = [
            leb128(at) + vector([leb128(n) + utf8(name) for n, name in enumerate(f.local_names)])
            for at, f in enumerate(self.functions)
        ]
        content = section(1, vector(called)) + section(2, vector(locals_))
        return section(_CUSTOM, utf8("name") + content)
