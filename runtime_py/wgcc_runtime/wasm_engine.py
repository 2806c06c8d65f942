"""All access to wasmtime: it is imported when first needed, and its errors become `WgccError`s.

`Instance.call` bypasses wasmtime's own `Func.__call__`, which takes 15 times as long.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import sys
from functools import lru_cache
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.errors import WgccError
from wgcc_runtime.interrupts import (
    TrapHandlers,
    check_process,
    held,
    keep_objects,
    watch,
)
from wgcc_runtime.plan_parts import PAGE

# How many compiled modules a process keeps, so that loading a bundle again is fast.
KEPT_MODULES = 16
# The limits flag of a memory that threads share.
SHARED = 3


def wasmtime() -> Any:
    """The wasmtime module (Any, because some parts used here are not typed)."""
    check_process()
    try:
        # Every call of a twin asks, and importing it again takes 5 µs.
        module = sys.modules.get("wasmtime") or importlib.import_module("wasmtime")
    except (ImportError, OSError, RuntimeError) as error:
        # RuntimeError: a platform that it has no library for.
        text = f"running the twin needs the package wasmtime (pip install wasmtime): {error}"
        raise WgccError("no-wasmtime", text) from None
    watch(module)
    _keep_at_exit(module)
    return module


@lru_cache(maxsize=1)
def _keep_at_exit(module: Any) -> None:
    """When Python ends, wasmtime's objects outlive the functions that would free them."""
    atexit.register(keep_objects, module)


class wasm_errors:  # noqa: N801 (used like a function, at each call of a twin)
    """Within this, an error of wasmtime becomes a `WgccError`; signals are deferred."""

    __slots__ = ("_doing",)

    def __init__(self, doing: str) -> None:
        self._doing = doing
        wasmtime()

    def __enter__(self) -> None:
        _held.__enter__()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            known = to_wgcc_error(error, self._doing) if error else None
            if known:
                raise known from None
        finally:
            _held.__exit__()


_held = held()


def to_wgcc_error(error: BaseException, doing: str) -> WgccError | None:
    """The error that callers see instead of one of wasmtime; None for all others."""
    library = wasmtime()
    if isinstance(error, library.Trap):
        return _lost(doing, error)
    if isinstance(error, library.WasmtimeError | MemoryError):
        return _translate(doing, error)
    return None


def _lost(doing: str, trap: Any) -> WgccError:
    # The reason is somewhere among stacks of addresses.
    lines = [line.strip() for line in str(trap.message).splitlines()]
    reason = next((line for line in lines if "wasm trap" in line), lines[0]).removeprefix("0: ")
    return WgccError(
        "device-lost",
        f"the WebAssembly twin failed while {doing} ({reason}); load the bundle again and continue "
        "from the last checkpoint",
    )


def _translate(doing: str, error: Exception) -> WgccError:
    text = str(error).strip()
    lower = text.lower()
    if isinstance(error, MemoryError) or "allocate memory" in lower or "mmap" in lower:
        advice = "a smaller batch or model needs less (wgcc build --set)"
        return WgccError("memory", f"there is not enough memory for {doing}: {advice}")
    return WgccError("gpu", f"wasmtime refused {doing}: {text}")


@lru_cache(maxsize=1)
def start_engine() -> tuple[Any, TrapHandlers]:
    """The engine, and the trap handlers that the first one in a process installs.

    They are recorded at once: a library that starts later, such as Ray, replaces them.
    """
    return wasmtime().Engine(engine_options()), TrapHandlers()


def engine_options() -> Any:
    library = wasmtime()
    config = library.Config()
    config.wasm_threads = True
    config.shared_memory = True
    # Compiled modules in ~/.cache/wasmtime: a second start takes 1 ms instead of 300.
    with contextlib.suppress(library.WasmtimeError):
        config.cache = True
    return config


@lru_cache(maxsize=KEPT_MODULES)
def compile_module(code: bytes, engine: Any = None) -> Any:
    """The module of these bytes, compiled once in a process for each engine."""
    library = wasmtime()
    with held():
        try:
            return library.Module(engine or start_engine()[0], code)
        except library.WasmtimeError as error:
            text = f"wasmtime does not accept twin.wasm: {str(error).strip()}"
            raise WgccError("bundle", text, "twin.wasm") from None


class Instance:
    """A module in one thread, number `number` of `threads`, with memory of its own or shared.

    A memory that is not shared belongs to `store`.
    """

    def __init__(
        self,
        module: Any,
        pages: int,
        number: int = 0,
        threads: int = 1,
        memory: Any = None,
        store: Any = None,
    ) -> None:
        library = wasmtime()
        engine, traps = start_engine()
        self._store, self.keep_traps = store or library.Store(engine), traps.restore
        self._memory = memory or _own_memory(self._store, pages)
        try:
            self._instance = library.Instance(self._store, module, [self._memory])
        except library.WasmtimeError as error:
            text = f"twin.wasm does not fit the runtime: {str(error).strip()}"
            raise WgccError("bundle", text, "twin.wasm") from None
        self._ffi = importlib.import_module("wasmtime._ffi")
        self._context = self._store._context()
        self._bytes = pages * PAGE
        self._together, self._alone = self._i32(number, threads), self._i32(0, 1)
        self._functions: dict[str, Any] = {}

    def data(self) -> Array:
        """The linear memory itself, which ends with this instance."""
        is_shared = isinstance(self._memory, wasmtime().SharedMemory)
        place = self._memory.data_ptr() if is_shared else self._memory.data_ptr(self._store)
        address = ctypes.addressof(place.contents)
        memory: Any = (ctypes.c_uint8 * self._bytes).from_address(address)
        return np.frombuffer(memory, np.uint8)

    def call(self, name: str, alone: bool = False) -> None:
        """Runs an export, as one of the threads or as the only one; raises wasmtime's errors."""
        ffi, trap = self._ffi, ctypes.POINTER(self._ffi.wasm_trap_t)()
        error = ffi.wasmtime_func_call(
            self._context,
            ctypes.byref(self._function(name)),
            self._alone if alone else self._together,
            2,
            None,
            0,
            ctypes.byref(trap),
        )
        if error:
            raise wasmtime().WasmtimeError._from_ptr(error)
        if trap:
            raise wasmtime().Trap._from_ptr(trap)

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            ffi, extern = self._ffi, self._ffi.wasmtime_extern_t()
            utf8 = name.encode("utf-8")
            there = ffi.wasmtime_instance_export_get(
                self._context,
                ctypes.byref(self._instance._instance),
                ctypes.create_string_buffer(utf8),
                len(utf8),
                ctypes.byref(extern),
            )
            if not there or extern.kind != ffi.WASMTIME_EXTERN_FUNC.value:
                missing = f"twin.wasm has no function `{name}`: build the model again"
                raise WgccError("bundle", missing, "twin.wasm")
            self._functions[name] = extern.of.func
        return self._functions[name]

    def _i32(self, *numbers: int) -> Any:
        values = (self._ffi.wasmtime_val_t * len(numbers))()
        for value, number in zip(values, numbers, strict=True):
            value.kind = self._ffi.WASMTIME_I32.value
            value.of.i32 = number
        return values


def _own_memory(store: Any, pages: int) -> Any:
    library = wasmtime()
    return library.Memory(store, library.MemoryType(library.Limits(pages, pages)))


def shared_memory(pages: int) -> Any:
    """Memory that instances of several threads can import."""
    library, ffi = wasmtime(), importlib.import_module("wasmtime._ffi")

    class Shared(library.SharedMemory):  # type: ignore[misc, name-defined]
        def _as_extern(self) -> Any:
            """wasmtime's own method returns a pointer to the pointer, which ctypes refuses."""
            union = ffi.wasmtime_extern_union(sharedmemory=self.ptr())
            return ffi.wasmtime_extern_t(ffi.WASMTIME_EXTERN_SHAREDMEMORY, union)

    kind = library.MemoryType(library.Limits(pages, pages), shared=True)
    return Shared(start_engine()[0], kind)
