"""Modules that no runtime compiles, by name: that of line_twin.py with one thing wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import line_bundle
import line_twin
from twin_modules import assemble, record
from wgcc.backends.wasm.encoding.instructions import leb128, section, utf8, vector

TYPES, IMPORTS, FUNCTIONS, EXPORTS, CODE = 1, 2, 3, 7, 10
Sections = dict[int, bytes]
HUGE = leb128(2**32 - 1)
MEMORY = utf8("env") + utf8("memory") + b"\x02"
LIMITS = b"\x01\x01" + leb128(65536)


def sections_of(code: bytes) -> Sections:
    found, at = {}, 8
    while at < len(code):
        number, (size, at) = code[at], number_at(code, at + 1)
        found[number] = code[at : at + size]
        at += size
    return found


def number_at(code: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (code[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if code[at - 1] < 0x80:
            return value, at


SOUND, FLAG = assemble(line_twin._module())
PARTS = sections_of(SOUND)


def module(sections: Mapping[int, bytes]) -> bytes:
    return SOUND[:8] + b"".join(section(number, data) for number, data in sections.items())


def with_section(number: int, data: bytes) -> bytes:
    """In the place where the standard wants it (12, of data, and 13, of tags, are exceptions)."""
    places = {12: 9.5, 13: 5.5}
    return module(
        dict(sorted({**PARTS, number: data}.items(), key=lambda x: places.get(x[0], x[0])))
    )


def more_items(number: int, item: bytes) -> bytes:
    count, at = number_at(PARTS[number], 0)
    return with_section(number, leb128(count + 1) + PARTS[number][at:] + item)


def with_count(number: int, count: bytes) -> bytes:
    _, at = number_at(PARTS[number], 0)
    return with_section(number, count + PARTS[number][at:])


def first_body(body: bytes) -> bytes:
    """The module with another first function, of whose type there is one at least."""
    count, at = number_at(PARTS[CODE], 0)
    size, start = number_at(PARTS[CODE], at)
    rest = PARTS[CODE][start + size :]
    return with_section(CODE, leb128(count) + leb128(len(body)) + body + rest)


def cases() -> dict[str, bytes]:
    return {**_sections(), **_imports(), **_exports(), **_numbers(), **_functions()}


def _sections() -> dict[str, bytes]:
    function = b"\x00"
    return {
        "a start function": with_section(8, function),
        "a memory of its own": with_section(5, vector([b"\x01\x01\x02"])),
        "a 64-bit memory of its own": with_section(5, vector([b"\x05\x01" + leb128(300_000)])),
        "a table": with_section(4, vector([b"\x70\x00" + leb128(400_000_000)])),
        "a global": with_section(6, vector([b"\x7f\x01\x41\x00\x0b"])),
        "elements": with_section(9, vector([b"\x01\x00\x01\x00"])),
        "data": with_section(11, vector([b"\x00\x41\x00\x0b\x04abcd"])),
        "a count of data": with_section(12, b"\x00"),
        "a tag": with_section(13, vector([b"\x00\x00"])),
        "a custom section": SOUND + section(0, utf8("sourceMappingURL") + utf8("http://x")),
        "an unknown section": with_section(99, b""),
        "sections out of order": module(dict(reversed(PARTS.items()))),
        "a section twice": SOUND + section(CODE, PARTS[CODE]),
        "no code": module({k: v for k, v in PARTS.items() if k != CODE}),
        "nothing": SOUND[:8],
        "no module": b"\0asn" + SOUND[4:],
        "a component": SOUND[:4] + b"\x0d\0\x01\0" + SOUND[8:],
        "bytes behind its code": with_section(CODE, PARTS[CODE] + b"\0"),
    }


def _imports() -> dict[str, bytes]:
    function = utf8("env") + utf8("now") + b"\x00\x00"
    return {
        "another import": more_items(IMPORTS, function),
        "another import alone": with_section(IMPORTS, vector([function])),
        "no import": with_section(IMPORTS, vector([])),
        "a memory of another name": with_section(
            IMPORTS, vector([utf8("env") + utf8("more") + b"\x02" + LIMITS])
        ),
        "a 64-bit memory": with_section(IMPORTS, vector([MEMORY + b"\x05" + LIMITS[1:]])),
        "a memory without a limit": with_section(IMPORTS, vector([MEMORY + b"\x00\x01"])),
        "a table for a memory": with_section(IMPORTS, vector([MEMORY[:-1] + b"\x01\x70" + LIMITS])),
    }


def _exports() -> dict[str, bytes]:
    count, at = number_at(PARTS[EXPORTS], 0)
    first_name, end = number_at(PARTS[EXPORTS], at)
    first = PARTS[EXPORTS][at : end + first_name + 2]
    rest = PARTS[EXPORTS][end + first_name + 2 :]
    return {
        "another export": more_items(EXPORTS, utf8("steal") + b"\x00\x00"),
        "an export twice": more_items(EXPORTS, first),
        "its memory as an export": more_items(EXPORTS, utf8("memory") + b"\x02\x00"),
        "a missing export": with_section(EXPORTS, leb128(count - 1) + rest),
        "an export that is a memory": with_section(
            EXPORTS, leb128(count) + first[:-2] + b"\x02\x00" + rest
        ),
        "an export of no function": with_section(
            EXPORTS, leb128(count) + first[:-1] + leb128(9999) + rest
        ),
        "entries of another type": with_section(
            TYPES, PARTS[TYPES].replace(b"\x60\x02\x7f\x7f\x00", b"\x60\x02\x7f\x7e\x00")
        ),
    }


def _numbers() -> dict[str, bytes]:
    names = {TYPES: "types", IMPORTS: "imports", FUNCTIONS: "functions", EXPORTS: "exports",
             CODE: "bodies"}  # fmt: skip
    return {
        **{f"4 billion {name}": with_count(number, HUGE) for number, name in names.items()},
        **{
            f"a number of {name} that does not end": with_section(number, b"\x80" * 20)
            for number, name in names.items()
        },
        "a number of 35 bits": with_count(TYPES, b"\xff\xff\xff\xff\x7f"),
        "a number of six bytes": with_count(TYPES, b"\x81\x80\x80\x80\x80\x00"),
        "a section of 4 GB": SOUND[:8] + b"\x01" + HUGE,
        "a name of 4 GB": with_section(IMPORTS, b"\x01" + HUGE),
        "a million types": with_section(TYPES, vector([b"\x60\0\0"] * 1_000_000)),
        "4 million functions": with_section(FUNCTIONS, vector([b"\0"] * 4_000_000)),
    }


def _functions() -> dict[str, bytes]:
    return {
        "a function of 1 MiB": first_body(b"\0" + b"\x01" * (1 << 20) + b"\x0b"),
        "4 billion locals": first_body(b"\x01" + HUGE + b"\x7f\x0b"),
        "locals that add up": first_body(b"\x09" + b"\xff\xff\x03\x7b" * 9 + b"\x0b"),
        "a body that is cut off": with_section(CODE, PARTS[CODE][:-1]),
        "fewer bodies than functions": more_items(FUNCTIONS, b"\0"),
    }


def write_bundle(folder: Path, code: bytes, flag: int = FLAG) -> Path:
    line_bundle.write_bundle(folder, twin=record(code, flag, line_twin.SIZES))
    (folder / "twin.wasm").write_bytes(code)
    return folder
