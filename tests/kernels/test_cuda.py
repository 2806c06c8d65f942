"""Kernels as CUDA C++: NVIDIA's compiler takes them all, and they compute what numpy does."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import numpy as np
import nvidia
import pytest

from adapters import ROOT
from cli_runs import run
from host_kernels import HostProgram
from wgcc.backends.cuda.print_tree import PRELUDE, print_file, print_module
from wgcc.compiler import compile_file
from wgcc.evaluate import Session
from wgcc.ir.graph import TensorType
from wgcc.kernel.parse import parse_module

GOLDEN = ROOT / "tests" / "golden"
KERNELS = sorted(GOLDEN.glob("*/*/*.wgsl"))
ARCHITECTURE = b"--gpu-architecture=sm_89"
# Of the other golden models, one has f16 and one has bytes, which `HostProgram` does not lay out.
MODELS = ("attention", "lookups", "loops", "regression", "tokens")


def nvrtc() -> ctypes.CDLL:
    folders = [Path(folder) for folder in nvidia.__path__]
    libraries = (file for folder in folders for file in folder.rglob("*nvrtc*"))
    names = re.compile(r"libnvrtc\.so\.\d+|nvrtc64_\d+_0\.dll")
    return ctypes.CDLL(str(next(file for file in libraries if names.fullmatch(file.name))))


def compile_errors(source: str) -> str:
    """What NVIDIA's compiler says of a file, if it does not take it."""
    library, program, size = nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    code = source.encode()
    made = library.nvrtcCreateProgram(ctypes.byref(program), code, b"kernels.cu", 0, None, None)
    assert made == 0
    options = (ctypes.c_char_p * 2)(ARCHITECTURE, b"--std=c++17")
    if library.nvrtcCompileProgram(program, 2, options) == 0:
        return ""
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    return "\n".join(line for line in log.value.decode().split("\n") if "error" in line)


def test_every_golden_kernel_compiles_for_a_gpu():
    parts = [PRELUDE.read_text(encoding="utf-8")]
    for path in KERNELS:
        name = f"{path.parent.parent.name}_{path.parent.name}_{path.stem}"
        parts.append(print_module(parse_module(path.read_text()), name))
    assert compile_errors("\n".join(parts)) == ""


def test_what_is_wrong_is_reported():
    kernel = "@compute @workgroup_size(8) fn main() { let a = missing; }"
    assert 'identifier "missing" is undefined' in compile_errors(
        print_file(parse_module(kernel), "wrong")
    )


def test_a_kernel_is_a_file():
    kernel = """
@group(0) @binding(0) var<storage, read> x0: array<vec4f, 2>;
@group(0) @binding(1) var<uniform> round0: vec4u;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 8>;
const INT = 3i;
var<workgroup> tile: array<f32, 8>;
var<private> float: u32;
// One thread per result.
@compute @workgroup_size(8)
fn main(@builtin(local_invocation_index) lane: u32) {
  let double = x0[round0.x].wx;
  tile[lane] = select(0.5, double.x, lane < 0x10u);
  workgroupBarrier();
  y0[lane] = fma(tile[0], 2.0, exp(double.y));
}
"""
    text = print_file(parse_module(kernel), "small", ("small", "from small.wg:1"))
    assert text.startswith("// small\n// from small.wg:1\n")
    assert text.endswith("""namespace kernel_small {
using namespace wgsl;
constexpr auto INT = 3;
__shared__ array<f32, 8> tile;

struct Kernel {
  const vec4<f32>* x0;
  const vec4<u32> round0;
  f32* y0;
  u32 float_{};

  // One thread per result.
  __device__ void main() {
    const auto lane = wgsl::local_index();
    auto double_ = wgsl::swizzle<3, 0>(x0[round0.x]);
    tile[lane] = wgsl::select(0.5f, double_.x, lane < 0x10u);
    wgsl::workgroupBarrier();
    y0[lane] = wgsl::fma(tile[0], 2.0f, wgsl::exp(double_.y));
  }
};

extern "C" __global__ void __launch_bounds__(8)
small(const vec4<f32>* x0, const vec4<u32> round0, f32* y0) {
  Kernel kernel{x0, round0, y0};
  kernel.main();
}
}
""")
    assert compile_errors(text) == ""


@pytest.mark.parametrize("name", MODELS)
def test_printed_kernels_compute_what_numpy_does(name: str, tmp_path: Path):
    """Every thread of every workgroup runs; at barriers, threads wait for each other."""
    compiled = compile_file(GOLDEN / f"{name}.wg", twin=False)
    random = np.random.default_rng(0)
    given = {k: _random(random, p.type) for k, p in compiled.program.params.items()}
    session = Session(compiled.program, given, dtype="f32")
    program = HostProgram(compiled.schedule, tmp_path)
    tensors = compiled.schedule.tensors
    held = {**session.params, **session.state}
    for key, array in held.items():
        program.write(tensors[key], np.asarray(array))
    for entry, graph in compiled.program.entries.items():
        inputs = {value.name: _random(random, value.type) for value in graph.inputs}
        program.call(entry, inputs)
        wanted = session.call(entry, inputs)
        for key, array in wanted.items():
            place = compiled.schedule.entries[entry].outputs[key]
            np.testing.assert_allclose(program.read(place, array), array, rtol=1e-3, atol=1e-4)
    for key, array in {**session.params, **session.state}.items():
        np.testing.assert_allclose(program.read(tensors[key], array), array, rtol=1e-3, atol=1e-4)


def _random(random: np.random.Generator, type_: TensorType) -> Any:
    if type_.dtype == "f32":
        return random.normal(size=type_.shape).astype(np.float32)
    return random.integers(0, 2, type_.shape)


def test_the_command_prints_a_kernel(capsys: pytest.CaptureFixture[str]):
    bundle = str(GOLDEN / "regression")
    code, text, _ = run(capsys, "show", bundle, "--kernel", "l2_matmul_mul", "--as", "cuda")
    assert code == 0 and "l2_matmul_mul(" in text
    assert compile_errors(text) == ""
    code, _, said = run(capsys, "show", bundle, "--as", "cuda")
    assert code != 0 and "--as cuda goes with --kernel NAME." in said
    code, text, _ = run(capsys, "show", bundle, "--kernel", "l2_matmul_mul")
    assert re.search(r"// indices: (\d+) of \1 are proven to be in range", text)
