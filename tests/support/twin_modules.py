"""WebAssembly modules in text form as twins of bundles, for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import wasmtime

# Every module here starts with this import; the compiler's own modules have the same one.
MEMORY = '(import "env" "memory" (memory 1 65536))'
# What comes before the flag of the imported memory.
_IMPORT = b"\x03env\x06memory\x02"


def assemble(body: str) -> tuple[bytes, int]:
    """The module, and the place of its memory's flag.

    A module that has atomic operations is assembled with shared memory and then marked as one
    without, as the compiler writes it.
    """
    shared = MEMORY.replace("65536", "65536 shared")
    code = bytearray(wasmtime.wat2wasm(f"(module {shared} {body})"))
    flag = code.index(_IMPORT) + len(_IMPORT)
    assert code[flag] == 3
    code[flag] = 1
    return without_names(bytes(code)), flag


def without_names(code: bytes) -> bytes:
    """The module without its last section, if that has names for debuggers: twins have none."""
    at = 8
    while at < len(code):
        start, (size, at) = at, _number(code, at + 1)
        at += size
        if code[start] == 0:
            return code[:start]
    return code


def _number(code: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128 number, and the place behind it."""
    value = shift = 0
    while True:
        value |= (code[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if code[at - 1] < 0x80:
            return value, at


def layout(sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Where each buffer starts, and where the last one ends."""
    starts, end = {}, 1024
    for name, size in sizes.items():
        starts[name] = end
        end += -(-size // 64) * 64
    return starts, end


def record(code: bytes, flag: int, sizes: Mapping[str, int], scratch: int = 0) -> dict[str, Any]:
    """The plan's object for such a module."""
    starts, end = layout(sizes)
    return {
        "file": "twin.wasm",
        "sha256": hashlib.sha256(code).hexdigest(),
        "memory_flag": flag,
        "buffers": starts,
        "bytes": end,
        "scratch": scratch,
    }
