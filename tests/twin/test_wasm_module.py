"""Modules that the compiler writes are valid, run, and can be read as text."""

from __future__ import annotations

import json
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wasmtime

from wgcc.backends.wasm.encoding.instructions import (
    BLOCK,
    CONST_F32,
    CONST_F64,
    CONST_I32,
    CONST_I64,
    CONST_V128,
    F32,
    FIXED,
    I32,
    INDEX,
    INSTRUCTIONS,
    LABELS,
    LANE,
    MEMORY,
    MEMORY_LANE,
    PLAIN,
    SHUFFLE,
    V128,
    Instruction,
    leb128,
    read_signed,
    read_unsigned,
    signed_leb128,
)
from wgcc.backends.wasm.encoding.module import (
    NOT_SHARED,
    PAGE,
    SHARED,
    WasmFunction,
    WasmModule,
    hoist_constants,
)
from wgcc.backends.wasm.encoding.wat import wat

NUMBERS = [0, 1, 63, 64, 127, 128, 300, 2**31 - 1, 2**32 - 1, 2**35]


def instance(module: WasmModule) -> tuple[Any, Any, Any]:
    """Store, memory and exports of a running module."""
    store = wasmtime.Store(wasmtime.Engine())
    memory = wasmtime.Memory(store, wasmtime.MemoryType(wasmtime.Limits(*module.pages)))
    compiled = wasmtime.Module(store.engine, module.encode())
    return store, memory, wasmtime.Instance(store, compiled, [memory]).exports(store)


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_read_back(number: int) -> None:
    assert read_unsigned(leb128(number), 0) == (number, len(leb128(number)))
    for value in (number, -number, -number - 1):
        assert read_signed(signed_leb128(value), 0) == (value, len(signed_leb128(value)))


def saxpy() -> WasmFunction:
    """y[i] = a x[i] + y[i], for i in steps of four."""
    f = WasmFunction("saxpy", [("x", I32), ("y", I32), ("count", I32), ("a", F32)])
    f.local("wide", V128)
    f.get(3).widen(F32).set(4)
    done = f.block()
    again = f.loop()
    f.get(2).emit("i32.eqz").br_if(done)
    f.get(1).get(4).get(0).emit("v128.load").emit("f32x4.mul")
    f.get(1).emit("v128.load", offset=0, align=4).emit("f32x4.add").emit("v128.store")
    for local in (0, 1):
        f.get(local).i32(16).emit("i32.add").set(local)
    f.get(2).i32(-4).emit("i32.add").set(2)
    return f.br(again).end().end()


def test_a_loop_over_vectors_runs() -> None:
    module = WasmModule((1, 4))
    module.add(saxpy(), export="saxpy é")
    store, memory, exports = instance(module)
    x, y = np.arange(32, dtype=np.float32), np.ones(32, np.float32)
    memory.write(store, x.tobytes() + y.tobytes(), 0)
    exports["saxpy é"](store, 0, 128, 32, 2.5)
    got = np.frombuffer(memory.read(store, 128, 256), np.float32)
    np.testing.assert_array_equal(got, 2.5 * x + y)


def every_instruction() -> WasmModule:
    """Each instruction once, where nothing constrains the types: behind `unreachable`."""
    module = WasmModule((1, 1), shared=True)
    module.add(WasmFunction("nothing"))
    for instruction in INSTRUCTIONS.values():
        if instruction.name in ("else", "end"):
            continue
        f = WasmFunction(instruction.name)
        f.local("x", I32)
        opened = instruction.immediates == BLOCK
        if opened:
            f.emit("unreachable").emit(instruction.name, 0x40)
            f.emit("end")
        else:
            f.emit("unreachable")
            f.emit(instruction.name, *example(instruction))
            f.emit("unreachable")
        module.add(f, export=instruction.name)
    return module


def example(instruction: Instruction) -> tuple[Any, ...]:
    return {
        PLAIN: (),
        FIXED: (),
        MEMORY: (),
        INDEX: (0,),
        LANE: (1,),
        MEMORY_LANE: (0,),
        LABELS: (0, 0, 0),
        CONST_I32: (-5,),
        CONST_I64: (2**40,),
        CONST_F32: (1.5,),
        CONST_F64: (1e300,),
        CONST_V128: (bytes(range(16)),),
        SHUFFLE: (bytes(range(8, 24)),),
    }[instruction.immediates]


def test_every_instruction_is_valid_in_wasmtime_and_its_text_gives_the_same_bytes() -> None:
    module = every_instruction()
    wasmtime.Module.validate(wasmtime.Engine(threads()), module.encode())
    texts = [wat(f, module.functions) for f in module.functions]
    whole = f'(module (import "env" "memory" (memory 1 1 shared)) {"".join(texts)})'
    # Same opcodes, same order, same immediates: the engine's own assembler agrees with ours.
    assembled = wasmtime.wat2wasm(whole)
    for function in module.functions:
        assert bytes(function.code) in assembled, function.name


def threads() -> wasmtime.Config:
    config = wasmtime.Config()
    config.wasm_threads = True
    config.shared_memory = True
    return config


def test_v8_accepts_every_instruction_and_the_patched_flag(tmp_path: Path) -> None:
    module = WasmModule((1, 4))
    module.add(saxpy(), export="saxpy é")
    plain = module.encode(names=True)
    assert plain[module.memory_flag_offset] == NOT_SHARED
    patched = bytearray(plain)
    patched[module.memory_flag_offset] = SHARED
    module.shared = True
    assert bytes(patched) == module.encode(names=True)
    assert validated(tmp_path, [plain, bytes(patched), every_instruction().encode()]) == [True] * 3
    assert validated(tmp_path, [plain[:-1] + b"\xff\xff", plain[:40]]) != [True] * 2


def validated(folder: Path, modules: list[bytes]) -> list[bool]:
    paths = []
    for at, content in enumerate(modules):
        paths.append(folder / f"{at}.wasm")
        paths[-1].write_bytes(content)
    code = "console.log(JSON.stringify(process.argv.slice(1).map((p) => WebAssembly.validate("
    code += "require('fs').readFileSync(p)))))"
    run = ["node", "-e", code, "--", *map(str, paths)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def test_constants_keep_their_bits() -> None:
    f = WasmFunction("constants", [("to", I32)])
    f.get(0).i32(0xFFFFFFFF).emit("i32.store")
    f.get(0).f32(float("inf")).emit("f32.store", offset=4)
    f.get(0).splat(-2).emit("v128.store", offset=16)
    f.get(0).splat(1.5).splat(0.25).shuffle(0, 5, 2, 7).emit("v128.store", offset=32)
    f.get(0).v128(bytes(range(16))).emit("v128.store", offset=48)
    module = WasmModule((1, 1))
    module.add(f, export="run")
    store, memory, exports = instance(module)
    exports["run"](store, 0)
    got = memory.read(store, 0, 64)
    assert got[:8] == b"\xff\xff\xff\xff" + struct.pack("<f", float("inf"))
    assert got[16:32] == struct.pack("<4i", -2, -2, -2, -2)
    assert got[32:48] == struct.pack("<4f", 1.5, 0.25, 1.5, 0.25)
    assert got[48:] == bytes(range(16))


def test_the_text_of_a_kernel_is_readable() -> None:
    f = WasmFunction("row 1", [("x", I32)], [F32])
    f.local("sum", F32)
    f.local("sum", V128)
    again = f.loop(F32)
    f.get(0).emit("f32.load", offset=8).f32(0.1).emit("f32.mul").tee(1)
    f.get(0).br_if(again).end().call(0)
    assert wat(f, [f]) == (
        "(func $row_1 (param $x i32) (result f32)\n"
        "  (local $sum f32)\n"
        "  (local $sum.2 v128)\n"
        "  loop (result f32)\n"
        "    local.get $x\n"
        "    f32.load offset=8\n"
        "    f32.const 0.100000001\n"
        "    f32.mul\n"
        "    local.tee $sum\n"
        "    local.get $x\n"
        "    br_if 0\n"
        "  end\n"
        "  call $row_1\n"
        ")\n"
    )


def test_mistakes_of_nesting_are_found() -> None:
    f = WasmFunction("open")
    label = f.block()
    with pytest.raises(AssertionError, match="block without end"):
        f.encode()
    f.end()
    with pytest.raises(AssertionError, match="has ended"):
        f.br(label)
    with pytest.raises(AssertionError, match="else without if"):
        f.else_()
    module = WasmModule((1, 1))
    module.add(f, export="a")
    with pytest.raises(AssertionError, match="twice"):
        module.add(f, export="a")


def test_thirty_thousand_instructions_are_encoded_in_a_moment() -> None:
    start = time.process_time()
    module = WasmModule((1, 1))
    for at in range(100):
        module.add(long_function(300), export=f"kernel {at}")
    module.encode()
    assert time.process_time() - start < 0.3


def long_function(count: int) -> WasmFunction:
    f = WasmFunction("long", [("x", I32)])
    for at in range(count // 5):
        f.get(0).get(0).emit("v128.load", offset=16 * at).emit("f32x4.sqrt").emit("v128.store")
    return f


def test_memory_is_counted_in_pages() -> None:
    module = WasmModule((2, 2))
    module.add(WasmFunction("nothing"), export="nothing")
    store, memory, _ = instance(module)
    assert memory.data_len(store) == 2 * PAGE


def repeated_sums() -> WasmFunction:
    """Adds constants `n` times; stores the sum. Some locals have numbers that are opcodes, too."""
    f = WasmFunction("sums", [("n", I32)])
    total, one = f.local("total", V128), f.local("one", F32)
    while f.local("unused", I32) < 0x43:
        pass
    same = f.local("same", V128)
    f.splat(0.5).set(total)
    f.f32(1.0).set(one)
    again = f.loop()
    f.get(total).splat(2.0).emit("f32x4.add").splat(2.0).emit("f32x4.add")
    f.v128(struct.pack("<4f", 1, 2, 3, 4)).emit("f32x4.add").set(total)
    f.splat(3).emit("f32x4.convert_i32x4_s").set(same)
    f.get(total).get(same).emit("f32x4.add").get(one).emit("f32x4.splat").emit("f32x4.add")
    f.set(total)
    f.get(0).i32(1).emit("i32.sub").tee(0).br_if(again).end()
    f.i32(0).get(total).emit("v128.store")
    return f


def test_constants_are_taken_out_of_loops() -> None:
    found, texts = [], []
    for is_hoisted in (False, True):
        f = repeated_sums()
        if is_hoisted:
            hoist_constants(f)
        module = WasmModule((1, 1))
        module.add(f, export="sums")
        store, memory, exports = instance(module)
        exports["sums"](store, 3)
        found.append(list(struct.unpack_from("<4f", memory.read(store, 0, 16))))
        texts.append(wat(f))
    assert found[0] == found[1] == [0.5 + 3 * (8 + lane) for lane in (1, 2, 3, 4)]
    before, inside = texts[1].split("loop")
    # The two equal ones are one; what is no constant stays where it is.
    assert before.count("f32.const 2") == 1 and "f32.const 2" not in inside
    assert "v128.const" in before and "i32x4.splat" in before
    assert inside.count("splat") == 1 and "v128.const" not in inside
