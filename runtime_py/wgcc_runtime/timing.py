"""Measures how long an entry and each of its kernels take, on a separate device."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from wgcc_runtime.device import Readback, gpu_errors, wgpu
from wgcc_runtime.gpu_machine import Command, GpuMachine, record_pass
from wgcc_runtime.machine import Machine
from wgcc_runtime.plan import Dispatch, Entry
from wgcc_runtime.plan_parts import times_run

TICK_BYTES = 8
TIMESTAMPS = "GPU timestamps, one pass per kernel"
SUBMITS = "one submit per kernel, less an empty submit (the adapter has no timestamps)"


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One dispatch: median milliseconds, bytes bound and operations, of all its `times` in a call.

    More than one if it is in a loop.
    """

    kernel: str
    label: str
    at: str
    ms: float
    bytes: int
    flops: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Profile:
    """`method` says how the times were measured."""

    entry: str
    method: str
    rows: tuple[KernelTime, ...]

    @property
    def total_ms(self) -> float:
        return sum(row.ms for row in self.rows)


def profile(machine: Machine, entry: Entry, repeat: int) -> Profile:
    """Median time of each kernel of an entry over `repeat` runs, on buffers of zeros."""
    method, times = machine.dispatch_times(entry.name, repeat)
    dispatches = machine.plan.dispatches(entry.name, machine.profile)
    measured = zip(dispatches, times, times_run(entry), strict=True)
    rows = [_row(machine, item, ms, often) for item, ms, often in measured]
    return Profile(entry.name, method, tuple(rows))


def dispatch_times(machine: GpuMachine, entry: str, repeat: int) -> tuple[str, list[float]]:
    """How the dispatches of an entry were measured on a GPU, and their milliseconds."""
    own = machine.on_new_device(extras=["timestamp-query"])
    try:
        times = kernel_times(own, own.commands(entry), repeat)
    finally:
        own.close()
    return TIMESTAMPS if _has_timestamps(own) else SUBMITS, times


def kernel_times(machine: GpuMachine, commands: Sequence[Command], repeat: int) -> list[float]:
    """Median milliseconds of each command over `repeat` runs, after one that is not counted."""
    measure = _by_timestamps if _has_timestamps(machine) else _by_submits
    return measure(machine, commands, repeat)


def _has_timestamps(machine: GpuMachine) -> bool:
    return "timestamp-query" in machine.device.gpu.features


def _row(machine: Machine, dispatch: Dispatch, ms: float, times: int) -> KernelTime:
    kernel = machine.plan.kernels[dispatch.kernel].name
    size = sum(binding.size for binding in dispatch.bindings) * times
    flops = dispatch.flops * times
    return KernelTime(kernel, dispatch.label, dispatch.at, ms * times, size, flops, times)


def _by_timestamps(machine: GpuMachine, commands: Sequence[Command], repeat: int) -> list[float]:
    """The first run compiles on some adapters, so it is not counted."""
    usage, gpu = wgpu().BufferUsage, machine.device.gpu
    count = 2 * len(commands)
    if not count:
        return []
    with gpu_errors("measuring"):
        queries = gpu.create_query_set(type="timestamp", count=count)
        resolved = gpu.create_buffer(
            size=TICK_BYTES * count, usage=usage.QUERY_RESOLVE | usage.COPY_SRC
        )
        readback = Readback(machine.device, TICK_BYTES * count)
        runs = []
        for _ in range(repeat + 1):
            encoder = machine.encoder()
            for i, command in enumerate(commands):
                record_pass(encoder, [command], timestamp_writes=_writes(queries, i))
            encoder.resolve_query_set(queries, 0, count, resolved, 0)
            readback.copy(encoder, resolved, 0, TICK_BYTES * count)
            machine.submit(encoder)
            ticks = np.frombuffer(readback.fetch(TICK_BYTES * count), np.uint64).astype(np.int64)
            runs.append(ticks[1::2] - ticks[0::2])
    scale = _tick_ns(machine.device.gpu) * 1e-6
    return [float(ms) for ms in np.median(np.maximum(runs[1:], 0), axis=0) * scale]


def _writes(queries: Any, i: int) -> dict[str, Any]:
    return {
        "query_set": queries,
        "beginning_of_pass_write_index": 2 * i,
        "end_of_pass_write_index": 2 * i + 1,
    }


def _tick_ns(gpu: Any) -> float:
    """Nanoseconds per tick; wgpu has no public way to ask, and most adapters count nanoseconds."""
    try:
        native = importlib.import_module("wgpu.backends.wgpu_native")
        return float(native.lib.wgpuQueueGetTimestampPeriod(gpu.queue._internal)) or 1.0
    except (ImportError, AttributeError, TypeError):
        return 1.0


def _by_submits(machine: GpuMachine, commands: Sequence[Command], repeat: int) -> list[float]:
    readback = Readback(machine.device, 4)

    def run(command: Command | None) -> None:
        encoder = machine.encoder()
        if command:
            record_pass(encoder, [command])
        readback.copy(encoder, machine.buffers[0], 0, 4)
        machine.submit(encoder)
        readback.fetch(4)

    with gpu_errors("measuring"):
        empty = median_ms(partial(run, None), repeat)
        times = [median_ms(partial(run, command), repeat) for command in commands]
    return [max(0.0, ms - empty) for ms in times]


def median_ms(action: Callable[[], None], repeat: int) -> float:
    """One more run than `repeat`, which is not counted."""
    action()
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        action()
        times.append(1000 * (time.perf_counter() - started))
    return median(times)
