"""A module: functions, globals and exports around one memory that the host provides."""

from __future__ import annotations

from wgcc.backends.wasm.encoding.encoder import (
    F32,
    I64,
    f32_bytes,
    function_type,
    section,
    signed,
    unsigned,
    utf8,
    vector,
    wrap_i32,
)
from wgcc.backends.wasm.encoding.function import Function

HEADER = b"\0asm\x01\0\0\0"
PAGE = 65536
NOT_SHARED, SHARED = 1, 3
_TYPE, _IMPORT, _FUNCTION, _GLOBAL, _EXPORT, _CODE, _CUSTOM = 1, 2, 3, 6, 7, 10, 0
_FUNCTION_EXPORT, _GLOBAL_EXPORT = 0, 3


class Module:
    """Imports "env"."memory" of `pages` (least, most). Function indices count from 0.

    After `encode`, `memory_flag_offset` is the place of the byte that says whether that memory is
    shared: a host that runs several threads writes SHARED there.
    """

    def __init__(self, pages: tuple[int, int], *, shared: bool = False) -> None:
        self.pages = pages
        self.shared = shared
        self.functions: list[Function] = []
        self.memory_flag_offset = 0
        self._globals: list[bytes] = []
        self._exports: dict[str, bytes] = {}

    def add(self, function: Function, export: str | None = None) -> int:
        """The function's index; its instructions may follow later."""
        index = len(self.functions)
        self.functions.append(function)
        if export is not None:
            self._export(export, _FUNCTION_EXPORT, index)
        return index

    def add_global(
        self, kind: int, value: int | float, *, mutable: bool = True, export: str | None = None
    ) -> int:
        index = len(self._globals)
        self._globals.append(bytes([kind, mutable]) + _constant(kind, value) + b"\x0b")
        if export is not None:
            self._export(export, _GLOBAL_EXPORT, index)
        return index

    def encode(self, *, names: bool = False) -> bytes:
        """The module's bytes; with `names`, what functions and locals are called, for debuggers."""
        types: dict[bytes, int] = {}
        indices = [
            unsigned(types.setdefault(function_type(f.params, f.results), len(types)))
            for f in self.functions
        ]
        before = HEADER + section(_TYPE, vector(list(types)))
        imported, flag = self._memory()
        self.memory_flag_offset = len(before) + len(imported) - flag
        out = [before, imported, section(_FUNCTION, vector(indices))]
        if self._globals:
            out.append(section(_GLOBAL, vector(self._globals)))
        out.append(section(_EXPORT, vector(list(self._exports.values()))))
        out.append(section(_CODE, vector([f.encode() for f in self.functions])))
        return b"".join(out) + (self._names() if names else b"")

    def _export(self, name: str, kind: int, index: int) -> None:
        assert name not in self._exports, f"{name} is exported twice"
        self._exports[name] = utf8(name) + bytes([kind]) + unsigned(index)

    def _memory(self) -> tuple[bytes, int]:
        """The import section, and how far before its end the limits start."""
        flag = SHARED if self.shared else NOT_SHARED
        limits = bytes([flag]) + unsigned(self.pages[0]) + unsigned(self.pages[1])
        item = utf8("env") + utf8("memory") + b"\x02" + limits
        return section(_IMPORT, vector([item])), len(limits)

    def _names(self) -> bytes:
        called = [unsigned(at) + utf8(f.name) for at, f in enumerate(self.functions)]
        locals_ = [
            unsigned(at)
            + vector([unsigned(n) + utf8(name) for n, name in enumerate(f.local_names)])
            for at, f in enumerate(self.functions)
        ]
        content = section(1, vector(called)) + section(2, vector(locals_))
        return section(_CUSTOM, utf8("name") + content)


def _constant(kind: int, value: int | float) -> bytes:
    if kind == F32:
        return b"\x43" + f32_bytes(value)
    number = int(value)
    return b"\x42" + signed(number) if kind == I64 else b"\x41" + signed(wrap_i32(number))
