"""The binary format's smallest pieces: numbers, names, vectors and sections."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

# Types of values, by the byte that stands for them.
I32, I64, F32, F64, V128 = 0x7F, 0x7E, 0x7D, 0x7C, 0x7B
TYPE_NAMES = {I32: "i32", I64: "i64", F32: "f32", F64: "f64", V128: "v128"}


def unsigned(number: int) -> bytes:
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


def signed(number: int) -> bytes:
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
    return unsigned(len(encoded)) + encoded


def vector(items: Sequence[bytes]) -> bytes:
    return unsigned(len(items)) + b"".join(items)


def section(number: int, content: bytes) -> bytes:
    return bytes([number]) + unsigned(len(content)) + content


def function_type(params: Iterable[int], results: Iterable[int]) -> bytes:
    takes, gives = bytes(params), bytes(results)
    return b"\x60" + unsigned(len(takes)) + takes + unsigned(len(gives)) + gives


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
