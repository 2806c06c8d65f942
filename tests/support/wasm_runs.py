"""Run expressions of WGSL as WebAssembly, one element or four at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import wasmtime

from wgcc.backends.wasm.encoding.instructions import F32, I32, V128
from wgcc.backends.wasm.encoding.module import PAGE, WasmFunction, WasmModule
from wgcc.backends.wasm.wgsl.evaluate import Local
from wgcc.backends.wasm.wgsl.lanes import Code
from wgcc.backends.wasm.wgsl.library import Library
from wgcc.kernel.parse import parse_expression
from wgcc.kernel.tree import FunctionDef
from wgcc_runtime.wasm_engine import start_engine

Array = np.ndarray[Any, Any]
KINDS = {"float32": "f32", "int32": "i32", "uint32": "u32", "bool": "bool"}
DTYPES = {kind: np.dtype(dtype) for dtype, kind in KINDS.items()}
# The runtime's engine comes first: it records wasmtime's trap handlers, which Ray replaces later.
start_engine()
ENGINE = wasmtime.Engine()


def run(
    expression: str,
    operands: Sequence[Any],
    lanes: int,
    size: int,
    own: Mapping[str, FunctionDef] | None = None,
) -> Array:
    """`{0}`, `{1}`… are the operands: arrays, or scalars that all elements share.

    `{i}` is the index. The result has the expression's type.
    """
    room = -(-size // 4) * 16
    module = WasmModule(((len(operands) + 1) * room // PAGE + 1,) * 2)
    got = kernel(module, Library(module, own), expression, operands, lanes, room)
    store = wasmtime.Store(ENGINE)
    memory = wasmtime.Memory(store, wasmtime.MemoryType(wasmtime.Limits(*module.pages)))
    compiled = wasmtime.Module(ENGINE, module.encode())
    exports = wasmtime.Instance(store, compiled, [memory]).exports(store)
    for at, operand in enumerate(operands):
        if isinstance(operand, np.ndarray):
            words = operand.astype(np.uint32) if operand.dtype == bool else operand
            memory.write(store, words.tobytes(), (at + 1) * room)
    exports["run"](store, size)
    raw = np.frombuffer(memory.read(store, 0, 4 * size), np.uint32)
    return raw != 0 if got == "bool" else raw.view(DTYPES[got])


def same_bits(a: Array, b: Array) -> bool:
    """Any NaN is as good as another: engines choose its sign and payload."""
    if a.dtype.kind != "f":
        return bool((a == b).all())
    equal = (a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))
    return bool(equal.all())


def kernel(
    module: WasmModule,
    library: Library,
    expression: str,
    operands: Sequence[Any],
    lanes: int,
    room: int,
    name: str = "run",
) -> str:
    """Exports a loop over all elements; the type of its results."""
    f = WasmFunction(name, [("size", I32)])
    code, names = Code(f, library), {}
    at = f.local("at", I32)
    again = f.loop()
    for n, operand in enumerate(operands):
        kind = KINDS[operand.dtype.name]
        if isinstance(operand, np.ndarray):
            names[f"{{{n}}}"] = load(f, at, (n + 1) * room, kind, lanes)
        else:
            names[f"{{{n}}}"] = uniform(f, operand, kind)
    names["{i}"] = index(f, at, lanes)
    f.get(at)
    got = code.expression(parse_expression(expression), names, lanes)
    f.emit("v128.store" if lanes > 1 else "f32.store" if got.kind == "f32" else "i32.store")
    f.get(at).i32(4 * lanes).emit("i32.add").tee(at)
    f.get(0).i32(4).emit("i32.mul").emit("i32.lt_u").br_if(again).end()
    module.add(f, export=name)
    return got.kind


def load(f: WasmFunction, at: int, offset: int, kind: str, lanes: int) -> Local:
    if lanes > 1:
        local = f.local(kind, V128)
        f.get(at).emit("v128.load", offset=offset)
        if kind == "bool":
            f.splat(0).emit("i32x4.ne")
    else:
        local = f.local(kind, F32 if kind == "f32" else I32)
        f.get(at).emit("f32.load" if kind == "f32" else "i32.load", offset=offset)
    f.set(local)
    return Local(local, kind, lanes)


def uniform(f: WasmFunction, operand: Any, kind: str) -> Local:
    local = f.local(kind, F32 if kind == "f32" else I32)
    f.f32(float(operand)) if kind == "f32" else f.i32(int(operand))
    f.set(local)
    return Local(local, kind)


def index(f: WasmFunction, at: int, lanes: int) -> Local:
    f.get(at).i32(2).emit("i32.shr_u")
    if lanes == 1:
        local = f.local("i", I32)
    else:
        local = f.local("i", V128)
        f.emit("i32x4.splat").v128(np.arange(4, dtype=np.int32).tobytes()).emit("i32x4.add")
    f.set(local)
    return Local(local, "u32", lanes)
