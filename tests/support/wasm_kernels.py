"""Run one kernel of the WebAssembly twin on arrays, with any number of threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import wasmtime

from wasm_runs import ENGINE
from wgcc.backends.wasm.encoding.instructions import I32
from wgcc.backends.wasm.encoding.module import PAGE, WasmFunction, WasmModule
from wgcc.backends.wasm.wgsl.library import Library
from wgcc.backends.wasm.write_kernel import scratch_words, write_kernel
from wgcc.kernel.parse import parse_module
from wgcc.schedule.kernel import Binding, DispatchWork, ProductTask, ThreadTask

Array = np.ndarray[Any, Any]
KINDS = {"float32": "f32", "int32": "i32", "uint32": "u32"}


class Built:
    """The module of some work whose bindings are `arrays`."""

    def __init__(self, work: DispatchWork, arrays: Mapping[str, Array], threads: int = 1) -> None:
        self.arrays = arrays
        self._places = {}
        end = 64
        for name, array in arrays.items():
            self._places[name] = end
            end += -(-array.nbytes // 64) * 64
        self._scratch = end
        self._per_thread = -(-scratch_words(work) * 4 // 64) * 64
        pages = -(-(end + threads * self._per_thread) // PAGE)
        module = WasmModule((pages, pages))
        function = write_kernel(work, "kernel", Library(module))
        self.locals = set(function.local_names)
        index = module.add(function)
        f = WasmFunction("run", [("thread", I32), ("threads", I32)])
        for place in self._places.values():
            f.i32(place)
        f.get(0).get(1).get(0).i32(self._per_thread).emit("i32.mul").i32(end).emit("i32.add")
        module.add(f.call(index), export="run")
        self.functions = {function.name for function in module.functions}
        self._module = wasmtime.Module(ENGINE, module.encode())
        self._pages = pages

    def run(self, threads: int = 1) -> dict[str, Array]:
        """All arrays after the threads have run, one after the other."""
        store = wasmtime.Store(ENGINE)
        memory = wasmtime.Memory(
            store, wasmtime.MemoryType(wasmtime.Limits(self._pages, self._pages))
        )
        exports = wasmtime.Instance(store, self._module, [memory]).exports(store)
        for name, array in self.arrays.items():
            memory.write(store, array.tobytes(), self._places[name])
        # Nothing may depend on the initial contents of scratch memory.
        garbage = np.full((self._pages * PAGE - self._scratch) // 4, np.nan, np.float32)
        memory.write(store, garbage.tobytes(), self._scratch)
        for thread in range(threads):
            exports["run"](store, thread, threads)
        return {
            name: np.frombuffer(
                memory.read(store, start, start + self.arrays[name].nbytes), self.arrays[name].dtype
            ).reshape(self.arrays[name].shape)
            for name, start in self._places.items()
        }


def work_of(
    task: ThreadTask | ProductTask,
    functions: str,
    constants: Mapping[str, int],
    arrays: Mapping[str, Array],
    written: tuple[str, ...],
) -> DispatchWork:
    bindings = tuple(
        Binding(name, KINDS[array.dtype.name], array.size, name in written)
        for name, array in arrays.items()
    )
    return DispatchWork(bindings, tuple(constants.items()), parse_module(functions), task)
