"""The binary format: numbers, names, vectors and sections, and the instructions of kernels, written
and read back.

Numbers are 32 or 64 bits wide: arithmetic on lanes of 8 and 16 bits is left out, because kernels
unpack elements into words.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

# Types of values, by the byte that stands for them.
I32, I64, F32, F64, V128 = 0x7F, 0x7E, 0x7D, 0x7C, 0x7B
TYPE_NAMES = {I32: "i32", I64: "i64", F32: "f32", F64: "f64", V128: "v128"}


def leb128(number: int) -> bytes:
    """LEB128 of a number that is not negative."""
    if number < 128:
        return _SMALL[number]
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


_SMALL = [bytes([number]) for number in range(128)]


def signed_leb128(number: int) -> bytes:
    """LEB128 of a number with a sign."""
    if -64 <= number < 64:
        return _SMALL[number & 127]
    out = bytearray()
    while not -64 <= number < 64:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number & 127)
    return bytes(out)


def f32_bytes(number: float) -> bytes:
    return struct.pack("<f", number)


def wrap_i32(number: int) -> int:
    """The i32 that has the same 32 bits."""
    return (number & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def utf8(text: str) -> bytes:
    encoded = text.encode()
    return leb128(len(encoded)) + encoded


def vector(items: Sequence[bytes]) -> bytes:
    return leb128(len(items)) + b"".join(items)


def section(number: int, content: bytes) -> bytes:
    return bytes([number]) + leb128(len(content)) + content


def function_type(params: Iterable[int], results: Iterable[int]) -> bytes:
    takes, gives = bytes(params), bytes(results)
    return b"\x60" + leb128(len(takes)) + takes + leb128(len(gives)) + gives


def read_unsigned(code: bytes, at: int) -> tuple[int, int]:
    """The number that starts at `at`, and where it ends."""
    number = shift = 0
    while code[at] > 127:
        number |= (code[at] & 127) << shift
        shift, at = shift + 7, at + 1
    return number | code[at] << shift, at + 1


def read_signed(code: bytes, at: int) -> tuple[int, int]:
    number, end = read_unsigned(code, at)
    negative = code[end - 1] & 64
    return (number - (1 << 7 * (end - at)) if negative else number), end


# What follows an opcode.
PLAIN, INDEX, MEMORY, LANE, MEMORY_LANE, BLOCK, LABELS = range(7)
CONST_I32, CONST_I64, CONST_F32, CONST_F64, CONST_V128, SHUFFLE = range(7, 13)
FIXED = 13  # bytes that are always the same, and part of `code` here


@dataclass(frozen=True, slots=True)
class Instruction:
    """`align` is the natural alignment of what it reads or writes, in bytes."""

    name: str
    code: bytes
    immediates: int = PLAIN
    align: int = 0
    atomic: bool = False


def _core() -> list[Instruction]:
    rows = [(0x00, "unreachable"), (0x01, "nop"), (0x05, "else"), (0x0B, "end"), (0x0F, "return")]
    rows += [(0x1A, "drop"), (0x1B, "select")]
    instructions = [Instruction(name, bytes([code])) for code, name in rows]
    for code, name in ((0x02, "block"), (0x03, "loop"), (0x04, "if")):
        instructions.append(Instruction(name, bytes([code]), BLOCK))
    indexed = {0x0C: "br", 0x0D: "br_if", 0x10: "call"}
    indexed |= {0x20: "local.get", 0x21: "local.set", 0x22: "local.tee"}
    instructions += [Instruction(name, bytes([code]), INDEX) for code, name in indexed.items()]
    instructions.append(Instruction("br_table", b"\x0e", LABELS))
    for at, name in enumerate(("i32", "i64", "f32", "f64")):
        instructions.append(Instruction(f"{name}.const", bytes([0x41 + at]), CONST_I32 + at))
    instructions.append(Instruction("memory.size", b"\x3f\0", FIXED))
    instructions.append(Instruction("memory.grow", b"\x40\0", FIXED))
    instructions.append(Instruction("memory.copy", b"\xfc\x0a\0\0", FIXED))
    instructions.append(Instruction("memory.fill", b"\xfc\x0b\0", FIXED))
    return instructions


def _memory() -> list[Instruction]:
    loads = "i32.load/4 i64.load/8 f32.load/4 f64.load/8 i32.load8_s/1 i32.load8_u/1 i32.load16_s/2"
    loads += " i32.load16_u/2 i64.load8_s/1 i64.load8_u/1 i64.load16_s/2 i64.load16_u/2"
    loads += " i64.load32_s/4 i64.load32_u/4"
    stores = " i32.store/4 i64.store/8 f32.store/4 f64.store/8 i32.store8/1 i32.store16/2"
    stores += " i64.store8/1 i64.store16/2 i64.store32/4"
    instructions = []
    for at, row in enumerate((loads + stores).split()):
        name, align = row.split("/")
        instructions.append(Instruction(name, bytes([0x28 + at]), MEMORY, int(align)))
    return instructions


def _numeric() -> list[Instruction]:
    """Opcodes 0x45 to 0xc4 and the saturating truncations, in the order of their numbers."""
    compare_int = "eqz eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u"
    compare_float = "eq ne lt gt le ge"
    integer = (
        "clz ctz popcnt add sub mul div_s div_u rem_s rem_u and or xor shl shr_s shr_u rotl rotr"
    )
    floating = "abs neg ceil floor trunc nearest sqrt add sub mul div min max copysign"
    families = [("i32", compare_int), ("i64", compare_int), ("f32", compare_float)]
    families += [("f64", compare_float), ("i32", integer), ("i64", integer), ("f32", floating)]
    families += [
        ("f64", floating),
        ("i32", "wrap_i64 trunc_f32_s trunc_f32_u trunc_f64_s trunc_f64_u"),
        ("i64", "extend_i32_s extend_i32_u trunc_f32_s trunc_f32_u trunc_f64_s trunc_f64_u"),
        ("f32", "convert_i32_s convert_i32_u convert_i64_s convert_i64_u demote_f64"),
        ("f64", "convert_i32_s convert_i32_u convert_i64_s convert_i64_u promote_f32"),
        ("i32", "reinterpret_f32"),
        ("i64", "reinterpret_f64"),
        ("f32", "reinterpret_i32"),
        ("f64", "reinterpret_i64"),
        ("i32", "extend8_s extend16_s"),
        ("i64", "extend8_s extend16_s extend32_s"),
    ]
    names = [f"{family}.{name}" for family, row in families for name in row.split()]
    instructions = [Instruction(name, bytes([0x45 + at])) for at, name in enumerate(names)]
    kinds = [f"{to}.trunc_sat_{of}" for to in ("i32", "i64") for of in ("f32", "f64")]
    truncations = [f"{kind}_{sign}" for kind in kinds for sign in "su"]
    return instructions + [Instruction(n, bytes([0xFC, at])) for at, n in enumerate(truncations)]


# Runs of instructions on vectors: the first opcode, the lanes, the names (`-` is a number unused).
_LANES = (
    (14, "i8x16", "swizzle splat"),
    (16, "i16x8", "splat"),
    (17, "i32x4", "splat"),
    (18, "i64x2", "splat"),
    (19, "f32x4", "splat"),
    (20, "f64x2", "splat"),
    (55, "i32x4", "eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u"),
    (65, "f32x4", "eq ne lt gt le ge"),
    (71, "f64x2", "eq ne lt gt le ge"),
    (77, "v128", "not and andnot or xor bitselect any_true"),
    (94, "f32x4", "demote_f64x2_zero"),
    (95, "f64x2", "promote_low_f32x4"),
    (103, "f32x4", "ceil floor trunc nearest"),
    (116, "f64x2", "ceil floor"),
    (122, "f64x2", "trunc"),
    (148, "f64x2", "nearest"),
    (135, "i16x8", "extend_low_i8x16_s - extend_low_i8x16_u"),
    (160, "i32x4", "abs neg - all_true bitmask"),
    (167, "i32x4", "extend_low_i16x8_s extend_high_i16x8_s extend_low_i16x8_u"),
    (170, "i32x4", "extend_high_i16x8_u"),
    (171, "i32x4", "shl shr_s shr_u add - - sub - - - mul min_s min_u max_s max_u"),
    (192, "i64x2", "abs neg - all_true bitmask"),
    (199, "i64x2", "extend_low_i32x4_s extend_high_i32x4_s extend_low_i32x4_u"),
    (202, "i64x2", "extend_high_i32x4_u shl shr_s shr_u add - - sub - - - mul eq ne lt_s gt_s"),
    (218, "i64x2", "le_s ge_s extmul_low_i32x4_s extmul_high_i32x4_s"),
    (222, "i64x2", "extmul_low_i32x4_u extmul_high_i32x4_u"),
    (224, "f32x4", "abs neg - sqrt add sub mul div min max pmin pmax"),
    (236, "f64x2", "abs neg - sqrt add sub mul div min max pmin pmax"),
    (248, "i32x4", "trunc_sat_f32x4_s trunc_sat_f32x4_u"),
    (250, "f32x4", "convert_i32x4_s convert_i32x4_u"),
    (252, "i32x4", "trunc_sat_f64x2_s_zero trunc_sat_f64x2_u_zero"),
    (254, "f64x2", "convert_low_i32x4_s convert_low_i32x4_u"),
)
_VECTOR_MEMORY = (
    (0, "load/16 load8x8_s/8 load8x8_u/8 load16x4_s/8 load16x4_u/8 load32x2_s/8 load32x2_u/8"),
    (7, "load8_splat/1 load16_splat/2 load32_splat/4 load64_splat/8 store/16"),
    (92, "load32_zero/4 load64_zero/8"),
)
_LANE_ACCESS = ((27, "i32x4"), (29, "i64x2"), (31, "f32x4"), (33, "f64x2"))


def _simd() -> list[Instruction]:
    instructions = [_vector(12, "v128.const", CONST_V128), _vector(13, "i8x16.shuffle", SHUFFLE)]
    for first, lanes, names in _LANES:
        for at, name in enumerate(names.split()):
            if name != "-":
                instructions.append(_vector(first + at, f"{lanes}.{name}", PLAIN))
    for first, lanes in _LANE_ACCESS:
        instructions.append(_vector(first, f"{lanes}.extract_lane", LANE))
        instructions.append(_vector(first + 1, f"{lanes}.replace_lane", LANE))
    for first, names in _VECTOR_MEMORY:
        for at, row in enumerate(names.split()):
            name, align = row.split("/")
            instructions.append(_vector(first + at, f"v128.{name}", MEMORY, int(align)))
    for at, size in enumerate((1, 2, 4, 8)):
        instructions.append(_vector(84 + at, f"v128.load{8 * size}_lane", MEMORY_LANE, size))
        instructions.append(_vector(88 + at, f"v128.store{8 * size}_lane", MEMORY_LANE, size))
    return instructions


def _vector(code: int, name: str, immediates: int, align: int = 0) -> Instruction:
    return Instruction(name, b"\xfd" + leb128(code), immediates, align)


_ATOMIC = (
    (0x00, "memory.atomic.notify", 4),
    (0x01, "memory.atomic.wait32", 4),
    (0x02, "memory.atomic.wait64", 8),
    (0x10, "i32.atomic.load", 4),
    (0x11, "i64.atomic.load", 8),
    (0x17, "i32.atomic.store", 4),
    (0x18, "i64.atomic.store", 8),
)


def _threads() -> list[Instruction]:
    instructions = [Instruction("atomic.fence", b"\xfe\x03\0", FIXED)]
    rows = list(_ATOMIC)
    for at, name in enumerate(("add", "sub", "and", "or", "xor", "xchg", "cmpxchg")):
        rows.append((0x1E + 7 * at, f"i32.atomic.rmw.{name}", 4))
        rows.append((0x1F + 7 * at, f"i64.atomic.rmw.{name}", 8))
    for code, name, align in rows:
        instructions.append(Instruction(name, bytes([0xFE, code]), MEMORY, align, atomic=True))
    return instructions


INSTRUCTIONS = {
    instruction.name: instruction
    for instruction in [*_core(), *_memory(), *_numeric(), *_simd(), *_threads()]
}
# Those without immediates, which are most of what a kernel holds.
PLAIN_CODES = {i.name: i.code for i in INSTRUCTIONS.values() if i.immediates in (PLAIN, FIXED)}


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
