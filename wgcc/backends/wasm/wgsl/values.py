"""Nodes for what instructions compute: the form between the tree of WGSL and instructions.

A value is a scalar (`lanes` 1, the same for all lanes of a vector) or a vector of four. Nodes that
are equal are one node; arithmetic on constants is done at once. Bools are 0 or 1 as scalars and all
bits 0 or 1 in lanes.
"""

from __future__ import annotations

import struct
from typing import Any

from wgcc.backends.wasm.encoding.instructions import F32, I32, V128, wrap_i32


class WasmValue:
    """`op` is an instruction, or "const", "local", "call", "each lane", "retype" (no instruction).

    `data` is a constant's 32 bits, a local's index, or what else the instruction needs.
    """

    __slots__ = ("args", "data", "kind", "lanes", "op")

    def __init__(
        self, op: str, kind: str, lanes: int, args: tuple[WasmValue, ...] = (), data: Any = None
    ) -> None:
        self.op = op
        self.kind = kind
        self.lanes = lanes
        self.args = args
        self.data = data

    def type_code(self) -> int:
        if self.lanes > 1:
            return V128
        return F32 if self.kind == "f32" else I32

    @property
    def number(self) -> float | int:
        """The number that a constant holds."""
        if self.kind == "f32":
            return float(struct.unpack("<f", struct.pack("<I", self.data))[0])
        return wrap_i32(self.data) if self.kind in ("i32", "int") else int(self.data)

    def __repr__(self) -> str:
        return f"{self.op}:{self.kind}x{self.lanes}{self.args or ''}{self.data or ''}"


def f32_bits(number: float) -> int:
    """The bits of the nearest f32; beyond the greatest one, that is infinity."""
    try:
        return int(struct.unpack("<I", struct.pack("<f", number))[0])
    except OverflowError:
        return 0x7F800000 if number > 0 else 0xFF800000


class Values:
    """Makes each node once."""

    def __init__(self) -> None:
        self._known: dict[Any, WasmValue] = {}

    def node(
        self, op: str, kind: str, lanes: int, args: tuple[WasmValue, ...] = (), data: Any = None
    ) -> WasmValue:
        key = (op, kind, args, data)
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = WasmValue(op, kind, lanes, args, data)
        return node

    def constant(self, number: float | int | bool, kind: str) -> WasmValue:
        bits = f32_bits(number) if kind == "f32" else int(number) & 0xFFFFFFFF
        return self.node("const", kind, 1, (), bits)

    def local(self, index: int, kind: str, lanes: int) -> WasmValue:
        return self.node("local", kind, lanes, (), (index, lanes))

    def widen(self, value: WasmValue) -> WasmValue:
        """The same in all lanes of a vector."""
        if value.lanes > 1:
            return value
        if value.kind == "f32":
            return self.node("f32x4.splat", "f32", 4, (value,))
        if value.kind == "bool":
            if value.op == "const":
                value = self.constant(-value.number, "i32")
            else:
                value = self.node("i32.sub", "i32", 1, (self.constant(0, "i32"), value))
            return self.node("i32x4.splat", "bool", 4, (value,))
        return self.node("i32x4.splat", value.kind, 4, (value,))

    def retype(self, value: WasmValue, kind: str) -> WasmValue:
        """The same bits as another type of the same register."""
        if value.kind == kind:
            return value
        if value.op == "const":
            return self.node("const", kind, 1, (), value.data)
        while value.op == "retype":
            value = value.args[0]
        return value if value.kind == kind else self.node("retype", kind, value.lanes, (value,))
