"""All access to wasmtime: it is imported when first needed, and its errors become `WgccError`s.

`Instance.call` bypasses wasmtime's own `Func.__call__`, which takes 15 times as long.

Threads that run the twin together: number 0, which does what is submitted, and those it wakes.

None of them is the caller's, which sees signals and the time meanwhile: a module that somebody else
wrote may never return from a call, or keep the engine busy while it is compiled. Handing work over
takes 25 to 30 µs for a submit; wasmtime's own interruption (epochs) would make all loops slower,
by 27 to 57 % of the CPU time of a step.

Within a call they synchronise at barriers. If one of them fails, the others would wait for it for
ever, so it releases them by changing the barriers; the contents of the memory are then unusable.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.device import LOOK_SECONDS, WAIT_SECONDS
from wgcc_runtime.errors import WgccError
from wgcc_runtime.interrupts import (
    TrapHandlers,
    check_process,
    has_insisted,
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


@contextlib.contextmanager
def wasm_errors(doing: str) -> Iterator[None]:
    """Within this, an error of wasmtime becomes a `WgccError`; signals are deferred."""
    library = wasmtime()
    with held():
        try:
            yield
        except library.Trap as error:
            raise _lost(doing, error) from None
        except (library.WasmtimeError, MemoryError) as error:
            raise _translate(doing, error) from None


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
    library = wasmtime()
    config = library.Config()
    config.wasm_threads = True
    config.shared_memory = True
    # Compiled modules in ~/.cache/wasmtime: a second start takes 1 ms instead of 300.
    with contextlib.suppress(library.WasmtimeError):
        config.cache = True
    return library.Engine(config), TrapHandlers()


@lru_cache(maxsize=KEPT_MODULES)
def compile_module(code: bytes) -> Any:
    """The module of these bytes, compiled once in a process."""
    library = wasmtime()
    with held():
        try:
            return library.Module(start_engine()[0], code)
        except library.WasmtimeError as error:
            text = f"wasmtime does not accept twin.wasm: {str(error).strip()}"
            raise WgccError("bundle", text, "twin.wasm") from None


class Instance:
    """A module in one thread, number `number` of `threads`, with memory of its own or shared."""

    def __init__(
        self, module: Any, pages: int, number: int = 0, threads: int = 1, memory: Any = None
    ) -> None:
        library = wasmtime()
        engine, traps = start_engine()
        self._store, self.keep_traps = library.Store(engine), traps.restore
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


# Adds one to each word that a module may use for barriers, and wakes the threads that wait there.
RELEASE = """
(module
  (import "env" "memory" (memory 1 65536 shared))
  (func (export "release") (param i32 i32) (local $at i32)
    loop $next
      (drop (i32.atomic.rmw.add (local.get $at) (i32.const 1)))
      (drop (memory.atomic.notify (local.get $at) (i32.const -1)))
      (local.set $at (i32.add (local.get $at) (i32.const 4)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 1024)))
    end))
"""
# The pause between two attempts to release the threads.
PAUSE_SECONDS = 0.001

Job = Callable[[], None]


class Team:
    """One module in several threads with one memory.

    `is_broken`: a thread failed or was left at work, so that the memory holds nothing usable.
    """

    def __init__(self, code: bytes, pages: int, threads: int) -> None:
        self._pages, self._threads = pages, threads
        self._memory = shared_memory(pages) if threads > 1 else None
        self._instances: list[Instance] = []
        self.is_broken = False
        self._front: _Member | None = None
        self._members: list[_Member] = []
        self._lock = threading.Lock()
        self._at_work = 0
        # The error that ended the job, and those that its threads raised.
        self._error: BaseException | None = None
        self._failures: list[BaseException] = []
        self._doing, self._since = "loading twin.wasm", 0.0
        self.perform(partial(self._open, code))
        self.data = self._instances[0].data()

    def perform(self, job: Job) -> None:
        """Does it in thread 0, while the caller sees signals; raises what it raises.

        The job may call `run`. It is left alone if the user insists, or if a call takes too long.
        """
        self._error, self._failures, self._since = None, [], time.monotonic()
        self._front = self._front or self._start()
        self._front.begin(partial(self._keep_error, job))
        while not self._front.has_ended(LOOK_SECONDS):
            seconds, insists = time.monotonic() - self._since, has_insisted()
            # A job whose calls are short ends by itself when the user insists.
            if insists and self._front.has_ended(LOOK_SECONDS):
                break
            if insists or seconds > WAIT_SECONDS:
                self.is_broken = True
                raise _left(self._doing, seconds)
        error, self._error = self._error, None
        if error:
            raise error

    def run(self, name: str, alone: bool = False) -> None:
        """Runs an export in all threads, as a part of a job; `alone`: in thread 0 only."""
        self._doing, self._since = f"`{name}`", time.monotonic()
        self._instances[0].keep_traps()
        if alone or self._threads == 1:
            self._instances[0].call(name, alone=True)
        else:
            self._run_together(name)

    def close(self) -> None:
        _end([*self._members, *([self._front] if self._front else [])])
        self._front, self._members, self._instances = None, [], []

    def _open(self, code: bytes) -> None:
        module = compile_module(code)
        for number in range(self._threads):
            self._instances.append(
                Instance(module, self._pages, number, self._threads, self._memory)
            )

    def _keep_error(self, job: Job) -> None:
        try:
            job()
        except BaseException as error:
            self._error = error

    def _run_together(self, name: str) -> None:
        if not self._members:
            self._members = [self._start() for _ in self._instances[1:]]
        self._at_work = self._threads
        for member, instance in zip(self._members, self._instances[1:], strict=True):
            member.begin(partial(self._take_part, name, instance))
        self._take_part(name, self._instances[0])
        for member in self._members:
            member.wait()
        if self._failures:
            raise self._failures[0]

    def _start(self) -> _Member:
        """Others than thread 0 not before the first call: whoever reads parameters needs none."""
        member = _Member()
        # At the end of the program it may be at work, and ends with it.
        weakref.finalize(self, _end, (member,)).atexit = False
        return member

    def _take_part(self, name: str, instance: Instance) -> None:
        try:
            instance.call(name)
        except BaseException as error:
            self._failures.append(error)
        with self._lock:
            self._at_work -= 1
        if self._failures:
            self._release_others()

    def _release_others(self) -> None:
        """Repeats until all have returned: they may wait at one barrier after the other."""
        self.is_broken = True
        code = bytes(wasmtime().wat2wasm(RELEASE))
        instance = Instance(compile_module(code), self._pages, memory=self._memory)
        while self._at_work:
            instance.call("release")
            time.sleep(PAUSE_SECONDS)


class _Member:
    """A thread that runs one job after the other. While it waits, it keeps no team alive."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._has_ended = False
        # Locks as signals, because they wake a thread fastest.
        self._begun, self._ended = threading.Lock(), threading.Lock()
        self._begun.acquire()
        self._ended.acquire()
        threading.Thread(target=self._serve, name="wgcc twin", daemon=True).start()

    def begin(self, job: Job) -> None:
        self._job = job
        self._begun.release()

    def end(self) -> None:
        """Ends the thread by giving it no job; may be called again."""
        if not self._has_ended:
            self._has_ended = True
            self._begun.release()

    def wait(self) -> None:
        self._ended.acquire()

    def has_ended(self, seconds: float) -> bool:
        """Waits at most so long for the job."""
        return self._ended.acquire(timeout=seconds)

    def _serve(self) -> None:
        while True:
            self._begun.acquire()
            job, self._job = self._job, None
            if job is None:
                return
            job()
            del job
            self._ended.release()


def _left(doing: str, seconds: float) -> WgccError:
    if has_insisted():
        text = f"Ctrl-C was pressed so often that {doing} was not waited for"
        return WgccError("interrupted", text)
    return WgccError("time-out", f"the twin did not finish {doing} within {seconds:.0f} s")


def _end(members: Sequence[_Member]) -> None:
    for member in members:
        member.end()
