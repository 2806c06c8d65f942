"""Vectors of constants are made once, before the loops that use them.

V8's newer compiler takes nothing out of loops: each constant would be three instructions in every
iteration. Others do it themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from wgcc.backends.wasm.encoding.decode import decode
from wgcc.backends.wasm.encoding.encoder import V128, unsigned
from wgcc.backends.wasm.encoding.function import Function

_SPLATS = {"f32x4.splat": "f32.const", "i32x4.splat": "i32.const"}
_GET, _SET = b"\x20", b"\x21"


def hoist_constants(function: Function) -> None:
    code = bytes(function.code)
    made: dict[bytes, int] = {}
    pieces, kept = [], 0
    for start, end in _constants_in_loops(code):
        constant = code[start:end]
        if constant not in made:
            made[constant] = function.local("constant", V128)
        pieces += [code[kept:start], _GET + unsigned(made[constant])]
        kept = end
    first = [constant + _SET + unsigned(local) for constant, local in made.items()]
    function.code = bytearray(b"".join([*first, *pieces, code[kept:]]))


def _constants_in_loops(code: bytes) -> Iterator[tuple[int, int]]:
    """Where they start and end: a vector, or a number that is put into all lanes."""
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
