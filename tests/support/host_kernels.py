"""Kernels printed as CUDA C++, compiled for this machine and run: all entries of a schedule."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wgcc.backends.cuda.print_tree import PRELUDE, print_module
from wgcc.schedule.kernel import GPU, WORD, Dispatch, EntrySchedule, Kernel, Place, Schedule
from wgcc.schedule.kernels.context import tree_of

HOST = Path(__file__).parent / "host.h"
Array = np.ndarray[Any, Any]


class HostProgram:
    """The buffers of a schedule, and its kernels as functions of a library."""

    def __init__(self, schedule: Schedule, folder: Path) -> None:
        self._schedule = schedule
        self._buffers = {b.name: np.zeros(b.words, np.uint32) for b in schedule.buffers}
        kernels = dict.fromkeys(d.launches[GPU].kernel for d in schedule.dispatches)
        self._names = {kernel: f"k{number}" for number, kernel in enumerate(kernels)}
        self._library = ctypes.CDLL(str(_compiled(self._names, folder)))
        for constant, place in schedule.constants.values():
            self.region(place)[:] = np.frombuffer(constant.words, np.uint32)

    def region(self, place: Place) -> Array:
        words = place.bytes // WORD
        return self._buffers[place.buffer][place.offset : place.offset + words]

    def write(self, place: Place, array: Array) -> None:
        kind = np.float32 if array.dtype.kind == "f" else np.int32
        self.region(place)[:] = array.astype(kind).reshape(-1).view(np.uint32)

    def read(self, place: Place, like: Array) -> Array:
        kind = np.float32 if like.dtype.kind == "f" else np.int32
        return self.region(place).view(kind).reshape(like.shape)

    def call(self, name: str, inputs: Mapping[str, Array]) -> None:
        entry = self._schedule.entries[name]
        for key, array in inputs.items():
            self.write(entry.inputs[key], array)
        self._run(entry, 0, len(entry.dispatches), 0)

    def _run(self, entry: EntrySchedule, first: int, end: int, depth: int) -> None:
        """The dispatches from `first` on, with the loops among them from number `depth` on."""
        at = first
        while at < end:
            loop = next((x for x in entry.repeats[depth:] if x.first == at and x.end <= end), None)
            if loop is None:
                self._dispatch(entry.dispatches[at])
                at += 1
                continue
            depth = entry.repeats.index(loop) + 1
            for _ in range(loop.rounds):
                self._run(entry, loop.first, loop.end, depth)
            at = loop.end

    def _dispatch(self, dispatch: Dispatch) -> None:
        launch = dispatch.launches[GPU]
        starts = [self._buffers[p.buffer].ctypes.data + p.offset * WORD for p in dispatch.regions]
        bindings = (ctypes.c_void_p * len(starts))(*starts)
        numbers = (ctypes.c_uint * 6)(*launch.grid, *launch.kernel.workgroup)
        self._library[f"run_{self._names[launch.kernel]}"](bindings, numbers)


def _compiled(names: Mapping[Kernel, str], folder: Path) -> Path:
    kernels = [
        f"{print_module(tree_of(kernel), name)}\nnamespace kernel_{name} {{ RUNNER({name}) }}"
        for kernel, name in names.items()
    ]
    source, library = folder / "kernels.cpp", folder / "kernels.so"
    head = (HOST.read_text(), PRELUDE.read_text(encoding="utf-8"))
    source.write_text("\n".join((*head, *kernels)))
    # Without contraction, products are rounded before sums, as WGSL allows and numpy does.
    flags = ("-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-ffp-contract=off")
    subprocess.run(["g++", *flags, str(source), "-o", str(library)], check=True)
    return library
