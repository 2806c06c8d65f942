"""Runs entries that take a few microseconds in the caller's thread, on the memory of a team.

Handing a call over to another thread takes longer than such an entry does. So the module is
compiled once more, with loops that look at the epoch of the engine. While a call lasts long, a
thread advances the epoch, and the call ends if the user insists or the time is over: a module that
somebody else wrote can be left here, too. Checks of the epoch make long entries slower, by up to
the half, so those stay with the team.
"""

from __future__ import annotations

import ctypes
import importlib
import threading
import time
from functools import lru_cache
from typing import Any

from wgcc_runtime.arrays import Array
from wgcc_runtime.device import LOOK_SECONDS, WAIT_SECONDS
from wgcc_runtime.errors import WgccError
from wgcc_runtime.interrupts import has_insisted
from wgcc_runtime.plan_parts import PAGE
from wgcc_runtime.wasm_engine import Instance, compile_module, engine_options, wasmtime
from wgcc_runtime.wasm_team import left

# The stack of a call: threads of callers may have small ones.
STACK_BYTES = 128 << 10


class DirectInstance:
    """An instance of a module on memory that exists already. `is_broken`: a call was left."""

    def __init__(self, code: bytes, data: Array) -> None:
        engine = _engine()
        pages = data.size // PAGE
        # Keeps the memory that the instance works on.
        self._data = data
        store = wasmtime().Store(engine.engine)
        memory = engine.memory(store, data)
        module = compile_module(code, engine.engine)
        self._instance = Instance(module, pages, memory=memory, store=store)
        self._ticks = engine.ticks
        self._export, self._since = "", 0.0
        self._why: WgccError | None = None
        self._watch(store)

    def call(self, export: str) -> None:
        """Runs an export; raises wasmtime's errors, or a `WgccError` if the call was left."""
        self._instance.keep_traps()
        self._export, self._since = export, time.monotonic()
        self._ticks.begin()
        try:
            self._instance.call(export, alone=True)
        except Exception:
            if self._why is None:
                raise
            raise self._why from None
        finally:
            self._ticks.is_busy = False

    @property
    def is_broken(self) -> bool:
        return self._why is not None

    def _watch(self, store: Any) -> None:
        ffi, pointer = importlib.import_module("wasmtime._ffi"), ctypes.POINTER
        store_type, kind = ffi.wasmtime_context_t, ffi.wasmtime_update_deadline_kind_t
        ticks, place = ctypes.c_uint64, ctypes.c_void_p
        look = ctypes.CFUNCTYPE(
            ctypes.c_size_t, pointer(store_type), place, pointer(ticks), pointer(kind)
        )
        # The store calls it as long as it lives, which is as long as this object does.
        self._callback = look(self._look)
        no_finalizer = ctypes.CFUNCTYPE(None, place)()
        ffi.wasmtime_store_epoch_deadline_callback(store.ptr(), self._callback, None, no_finalizer)
        store.set_epoch_deadline(1)

    def _look(self, _context: Any, _data: Any, ticks: Any, _kind: Any) -> int:
        """Called when the epoch has advanced: 0 to continue until it does so again, or an error.

        Signals are deferred here, so that no handler can raise.
        """
        seconds = time.monotonic() - self._since
        if not has_insisted() and seconds <= WAIT_SECONDS:
            ticks[0] = 1
            return 0
        self._why = left(f"`{self._export}`", seconds)
        return _error("the call was left")


class _Ticks:
    """A thread that advances the epoch of an engine, several times a second while there are calls.

    `is_busy`: a call runs.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._was_used = self.is_busy = False
        self._awake = threading.Event()
        threading.Thread(target=self._serve, name="wgcc epochs", daemon=True).start()

    def begin(self) -> None:
        self.is_busy = self._was_used = True
        if not self._awake.is_set():
            self._awake.set()

    def _serve(self) -> None:
        while True:
            self._awake.wait()
            time.sleep(LOOK_SECONDS)
            if self._has_calls():
                self._was_used = False
                self._engine.increment_epoch()
                continue
            self._awake.clear()
            # A call that began between these lines took the thread to be awake.
            if self._has_calls():
                self._awake.set()

    def _has_calls(self) -> bool:
        return self.is_busy or self._was_used


class _Engine:
    """An engine with epochs whose memories are memory of another engine.

    Calls of modules take addresses of memory from the engine that made it; a memory creator, which
    engines ask for memory of modules that define their own, is the way to pass one on.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The address and size of the memory that is made now, and all sizes by address.
        self._next = 0, 0
        self._sizes: dict[int, int] = {}
        options = engine_options()
        options.epoch_interruption = True
        options.max_wasm_stack = STACK_BYTES
        self._set_creator(options)
        self.engine = wasmtime().Engine(options)
        self.ticks = _Ticks(self.engine)

    def memory(self, store: Any, data: Array) -> Any:
        """A memory of `store` that is `data`."""
        pages, library = data.size // PAGE, wasmtime()
        text = f'(module (memory (export "memory") {pages} {pages}))'
        module = library.Module(self.engine, library.wat2wasm(text))
        with self._lock:
            self._next = data.ctypes.data, data.size
            return library.Instance(store, module, []).exports(store)["memory"]

    def _set_creator(self, options: Any) -> None:
        ffi = importlib.import_module("wasmtime._ffi")
        # They are used as long as the engine is: until the process ends.
        self._get = ffi.wasmtime_memory_get_callback_t(self._place)
        self._grow = ffi.wasmtime_memory_grow_callback_t(_refuse_to_grow)
        self._make = ffi.wasmtime_new_memory_callback_t(self._make_memory)
        creator = ffi.wasmtime_memory_creator_t(None, self._make)
        ffi.wasmtime_config_host_memory_creator_set(options.ptr(), ctypes.byref(creator))

    def _make_memory(self, *arguments: Any) -> int:
        memory = arguments[-1][0]
        address, size = self._next
        self._sizes[address] = size
        memory.env, memory.get_memory, memory.grow_memory = address, self._get, self._grow
        return 0

    def _place(self, address: int, size: Any, capacity: Any) -> int:
        size[0] = capacity[0] = self._sizes[address]
        return address


def _refuse_to_grow(_address: int, _size: int) -> int:
    return _error("the memory has its largest size")


def _error(text: str) -> int:
    """The address of a new error, which wasmtime frees."""
    ffi = importlib.import_module("wasmtime._ffi")
    error = ffi.wasmtime_error_new(ctypes.create_string_buffer(text.encode()))
    return ctypes.cast(error, ctypes.c_void_p).value or 0


@lru_cache(maxsize=1)
def _engine() -> _Engine:
    return _Engine()


def open_directly(code: bytes, data: Array) -> DirectInstance | None:
    """None where there is no memory for it, or wasmtime is too old: the team runs all calls."""
    errors = (WgccError, wasmtime().WasmtimeError, MemoryError, AttributeError)
    try:
        return DirectInstance(code, data)
    except errors:
        return None
