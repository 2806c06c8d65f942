"""A bundle as WebAssembly: its buffers are ranges of one linear memory, its entries are exports.

Submitted work runs at once, in the threads of its team, while the caller waits, or in the caller's
thread if it is short. Its errors are kept until results are read, as on a GPU.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array, as_bytes
from wgcc_runtime.errors import WgccError
from wgcc_runtime.interrupts import has_insisted
from wgcc_runtime.plan import Entry, Plan, Tensor, Twin
from wgcc_runtime.plan_parts import PAGE, times_run
from wgcc_runtime.quick_call import QuickCall, can_be_quick
from wgcc_runtime.wasm_direct import DirectInstance, open_directly
from wgcc_runtime.wasm_engine import SHARED, to_wgcc_error, wasm_errors
from wgcc_runtime.wasm_products import make_products, needed_bytes
from wgcc_runtime.wasm_team import Team

# The bytes that a twin can address.
MOST_BYTES = 1 << 32
METHOD = "one call per kernel"
# An entry is short if the fastest of its first calls took less than this.
SHORT_SECONDS = 60e-6
FIRST_CALLS = 8


@dataclass(frozen=True, slots=True)
class WasmDevice:
    threads: int
    is_fast: bool = False
    kind: str = "wasm"
    has_subgroups: bool = False

    @property
    def name(self) -> str:
        blas = " and BLAS" if self.is_fast else ""
        return f"WebAssembly ({self.threads} thread{'s' if self.threads > 1 else ''}{blas})"


class WasmMachine:
    """One bundle in wasmtime; see `machine.Machine`."""

    profile = "wasm"
    calls_made = 0
    errors = staticmethod(wasm_errors)

    def __init__(self, plan: Plan, code: bytes, threads: Threads, fast: bool = False) -> None:
        assert plan.twin is not None
        self.plan = plan
        self.device = WasmDevice(threads.count, fast)
        self._code, self._threads = code, threads
        started = time.perf_counter()
        size = memory_bytes(plan.twin, threads.count, fast)
        with wasm_errors(f"{size:,} bytes of linear memory"):
            module = _share_memory(code, plan.twin, threads.count)
            self._team = Team(module, size // PAGE, threads.count)
        self.compile_ms = 1000 * (time.perf_counter() - started)
        self.buffers = _buffers(plan, plan.twin, self._team.data)
        self._products = (
            make_products(plan, self._team.data, threads.count, self._call) if fast else None
        )
        self._failure: WgccError | None = None
        self._is_open = True
        self._durations = _Durations()
        self._direct: DirectInstance | None = None
        self._may_be_direct = True

    def prepare(self, entry: str) -> None:
        """The module has all entries, and was compiled as a whole."""

    def storage(self, size: int, label: str) -> Array:
        with wasm_errors(f"a buffer of {size:,} bytes"):
            return _zeros(size)

    def free(self, memory: Array) -> None:
        """The memory is freed with the last reference."""

    def fill(self, memory: Array, words: Array) -> None:
        data = words.reshape(-1).view(np.uint8)
        memory[: data.size] = data

    def results(self, size: int) -> WasmResults:
        return WasmResults(self, size)

    def encoder(self) -> WasmEncoder:
        return WasmEncoder()

    def run(self, encoder: WasmEncoder, entry: str) -> None:
        self._record(encoder, entry, entry)

    def run_half(self, encoder: WasmEncoder, entry: str, half: str) -> None:
        self._record(encoder, entry, f"{entry}/{half}")

    def checks(self, entry: str) -> bool:
        # Products by BLAS are those of the entry's own export.
        twin = self.plan.twin
        return twin is not None and entry in twin.checked and not self.device.is_fast

    def run_checked(self, encoder: WasmEncoder, entry: str) -> None:
        self._record(encoder, entry, f"{entry}/checked")

    def run_guard(self, encoder: WasmEncoder, entry: str) -> None:
        if self.plan.entries[entry].guard:
            self._record(encoder, entry, f"{entry}/guard")

    def run_dispatch(self, encoder: WasmEncoder, entry: str, number: int) -> None:
        self._record(encoder, entry, f"{entry}/{number}")

    def _record(self, encoder: WasmEncoder, entry: str, export: str) -> None:
        encoder.entries.add(entry)
        encoder.steps.append(partial(self._call, entry, export))

    def submit(self, encoder: WasmEncoder) -> None:
        self.check_usable()
        self.calls_made = 0
        try:
            if all(map(self._is_direct, encoder.entries)):
                _take(encoder.steps)
            else:
                self._perform(partial(_take, encoder.steps))
        except WgccError as error:
            self._failure = _again(error)

    def quick(self, entry: str) -> QuickCall | None:
        if not self._is_direct(entry) or self._direct is None:
            return None
        if not can_be_quick(self.plan.entries[entry]):
            return None
        call = partial(self._call_directly, self._direct, entry)
        return QuickCall(self.plan, entry, self.buffers, call)

    def _call_directly(self, direct: DirectInstance, entry: str) -> None:
        self.check_usable()
        try:
            direct.call(entry)
        except Exception as error:
            failure = to_wgcc_error(error, f"running `{entry}`") or error
            if isinstance(failure, WgccError):
                self._failure = _again(failure)
            raise failure from None

    def write(self, tensor: Tensor, words: Array) -> None:
        self.check_usable()
        data = as_bytes(words)
        self.buffers[tensor.buffer][tensor.offset : tensor.offset + data.size] = data

    def weights_changed(self) -> None:
        """Kernels of the twin read parameters themselves, not f16 copies of them."""

    def read(self, buffer: int, offset: int, size: int) -> bytes:
        self.check_done()
        return bytes(self.buffers[buffer][offset : offset + size])

    def dispatch_times(self, entry: str, repeat: int) -> tuple[str, list[float]]:
        from wgcc_runtime.timing import median_ms

        own, times = self.on_new_device(), list[float]()

        def measure() -> None:
            for number in range(len(self.plan.entries[entry].dispatches)):
                call = partial(own._call, entry, f"{entry}/{number}")
                times.append(median_ms(call, repeat))

        try:
            own._perform(measure)
        finally:
            own.close()
        return METHOD, times

    def on_new_device(self) -> WasmMachine:
        return WasmMachine(self.plan, self._code, self._threads, self.device.is_fast)

    def check_open(self) -> None:
        if not self._is_open:
            raise WgccError("closed", "the model was closed")

    def check_usable(self) -> None:
        """After a failed call the contents of the memory cannot be used any more."""
        self.check_open()
        if self._failure and self._failure.code == "device-lost":
            raise _again(self._failure)
        if self._is_broken:
            text = "a call of the WebAssembly twin was not finished; load the bundle again and"
            raise WgccError("device-lost", f"{text} continue from the last checkpoint")

    def check_done(self) -> None:
        """Raises the error of the last submitted work, if any."""
        self.check_open()
        failure = self._failure
        if failure and failure.code != "device-lost":
            self._failure = None
            raise _again(failure)
        self.check_usable()

    def close(self) -> None:
        self._is_open = False
        self.buffers, self._direct, self._may_be_direct = [], None, False
        self._products = None
        self._team.close()

    def _perform(self, job: Callable[[], None]) -> None:
        with wasm_errors("running the twin"):
            self._team.perform(job)

    def _call(self, entry: str, export: str) -> None:
        """Runs an export, in the thread that performs a job."""
        # The caller may have given up while another call ran.
        if has_insisted() or self._is_broken:
            text = f"Ctrl-C was pressed so often that `{export}` was not run any more"
            raise WgccError("interrupted", text)
        if self._products and self._products.run(entry, export):
            return
        with wasm_errors(f"running `{export}`"):
            if self._direct and self._durations.is_short(entry):
                self._direct.call(export)
                return
            started = time.perf_counter()
            self._team.run(export, alone=entry not in self._threads.entries)
            if export == entry:
                self._durations.add(entry, time.perf_counter() - started)
            self.calls_made += 1

    @property
    def _is_broken(self) -> bool:
        return self._team.is_broken or (self._direct is not None and self._direct.is_broken)

    def _is_direct(self, entry: str) -> bool:
        """Whether calls of the entry run in the caller's thread; prepares the first one."""
        if not self._durations.is_short(entry):
            return False
        if self._may_be_direct and self._direct is None:
            self._may_be_direct = False
            self._perform(self._open_directly)
        return self._direct is not None

    def _open_directly(self) -> None:
        self._direct = open_directly(self._code, self._team.data)


class WasmEncoder:
    """Work to be done in order; see `machine.Encoder`."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], Any]] = []
        # Whose calls are among the steps.
        self.entries: set[str] = set()

    def copy_buffer_to_buffer(
        self, source: Array, offset: int, target: Array, at: int, size: int
    ) -> None:
        part = target[at : at + size]
        self.steps.append(partial(np.copyto, part, source[offset : offset + size]))

    def clear_buffer(self, buffer: Array, offset: int = 0, size: int | None = None) -> None:
        end = None if size is None else offset + size
        self.steps.append(partial(buffer[offset:end].fill, 0))


class WasmResults:
    """See `machine.Results`."""

    def __init__(self, machine: WasmMachine, size: int) -> None:
        self._machine = machine
        self._data = machine.storage(size, "results")

    def copy(
        self, encoder: WasmEncoder, source: Array, offset: int, size: int, at: int = 0
    ) -> None:
        encoder.copy_buffer_to_buffer(source, offset, self._data, at, size)

    def fetch(self, size: int) -> memoryview:
        self._machine.check_done()
        return self._data.data[:size]

    def close(self) -> None:
        """The memory is freed with the last reference."""


def _take(steps: Iterable[Callable[[], Any]]) -> None:
    for step in steps:
        step()


def _again(error: WgccError) -> WgccError:
    """The error without its frames, which would keep the machine and its memory alive."""
    return WgccError(error.code, error.message, error.field)


def _share_memory(code: bytes, twin: Twin, threads: int) -> bytes:
    """The module for this many threads: its memory is shared if there are several."""
    if threads == 1:
        return code
    return code[: twin.memory_flag] + bytes([SHARED]) + code[twin.memory_flag + 1 :]


def memory_bytes(twin: Twin, threads: int, fast: bool) -> int:
    """The linear memory in whole pages. Packed operands take the place of the scratch areas."""
    needed = needed_bytes(twin) if fast else 0
    return max(twin.memory_bytes(threads), -(-needed // PAGE) * PAGE)


def _buffers(plan: Plan, twin: Twin, data: Array) -> list[Array]:
    """Each buffer extends to the start of the next: temporaries may be larger than on a GPU."""
    starts = sorted((*twin.buffers.values(), twin.bytes))
    after = dict(pairwise(starts))
    places = [twin.buffers[buffer.name] for buffer in plan.buffers]
    return [data[start : after[start]] for start in places]


def _zeros(size: int) -> Array:
    return np.zeros(size, np.uint8)


MOST_THREADS = 64
DEFAULT_THREADS = 4
# An entry with fewer operations ends before other threads have woken up (0.1 ms): one token of a
# decoder, for example.
THREADED_FLOPS = 20_000_000
# The same for one dispatch of a loop: threads wait for each other after each.
THREADED_ROUND = 2_000_000


@dataclass(frozen=True, slots=True)
class Threads:
    """`entries` run in `count` threads, all others in the caller's alone: with the same results."""

    count: int
    entries: frozenset[str]


def choose_threads(threads: int | None, plan: Plan, twin: Twin) -> Threads:
    """The threads that the caller or $WGCC_THREADS requests, else as many as are useful."""
    given = _requested_threads(threads)
    if given is not None:
        return Threads(given, frozenset(plan.entries))
    large = frozenset(name for name, entry in plan.entries.items() if _is_large(entry))
    count = min(_cores(), DEFAULT_THREADS) if large else 1
    return Threads(count if twin.memory_bytes(count) <= 1 << 32 else 1, large)


def _requested_threads(threads: int | None) -> int | None:
    name, given = "threads", threads
    if threads is None:
        name, text = "WGCC_THREADS", os.environ.get("WGCC_THREADS", "")
        if not text:
            return None
        given = _number(text)
    if type(given) is not int or not 1 <= given <= MOST_THREADS:
        text = f"{name} is {given!r}, not a number of threads from 1 to {MOST_THREADS}"
        raise WgccError("range", text, name)
    return given


def _number(text: str) -> Any:
    return int(text) if text.isascii() and text.isdigit() else text


def _is_large(entry: Entry) -> bool:
    counted = (
        dispatch.flops * times
        for dispatch, times in zip(entry.dispatches, times_run(entry), strict=True)
        if times == 1 or dispatch.flops >= THREADED_ROUND
    )
    return sum(counted) >= THREADED_FLOPS


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Durations:
    """How long the first calls of each entry took; a busy machine only makes them seem longer."""

    def __init__(self) -> None:
        self._calls: dict[str, int] = {}
        self._fastest: dict[str, float] = {}

    def add(self, entry: str, seconds: float) -> None:
        self._calls[entry] = self._calls.get(entry, 0) + 1
        self._fastest[entry] = min(seconds, self._fastest.get(entry, seconds))

    def is_short(self, entry: str) -> bool:
        called = self._calls.get(entry, 0) >= FIRST_CALLS
        return called and self._fastest[entry] < SHORT_SECONDS
