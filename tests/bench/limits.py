"""How near each family of the twin's kernels is to the limits of this machine.

    python tests/bench/limits.py [--only 'depthwise*'] [--seconds 1] [--json FILE]

The limits are those of WebAssembly here: operations a second of a loop of multiplications and
additions in registers, and bytes a second of a loop that copies memory. No kernel can take less
time than its operations or its bytes (each tensor counted once) need; a share is that time divided
by the measured one. Times are CPU time of one thread in wasmtime: limits and kernels take turns, so
that a busy machine slows both, and the best of each counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
for place in (ROOT, ROOT / "runtime_py"):
    sys.path.insert(0, str(place))

from wgcc.backends.wasm.encoding.instructions import I32, V128  # noqa: E402
from wgcc.backends.wasm.encoding.module import PAGE, WasmFunction, WasmModule  # noqa: E402
from wgcc.backends.wasm.twin import write_twin  # noqa: E402
from wgcc.compiler import compile_file  # noqa: E402
from wgcc.ir.places import WORD, ceil_div  # noqa: E402
from wgcc_runtime.wasm_engine import Instance, compile_module  # noqa: E402

MODEL = FOLDER / "models" / "limits.wg"
# Multiplications and additions of one call, by entry; the others only move bytes.
_N, _W, _IMAGES, _C, _S = 512, 1024, 4 * 32 * 32, 128, 32
_TAPS = 2 * 9 * _IMAGES
FLOPS = {
    "product": 2 * _N**3,
    "rows_8": 2 * 8 * _W**2,
    "rows_32": 2 * 32 * _W**2,
    "row_1": 2 * _W**2,
    "row_1_int8": 2 * _W**2,
    "product_gelu": 2 * _N**3,
    "product_silu": 2 * _N**3,
    "conv": _TAPS * _S**2,
    "depthwise": _TAPS * _C,
    "depthwise_relu": _TAPS * _C,
    # Forward, and the gradients of image and kernel.
    "depthwise_train": 3 * _TAPS * _C,
    # Half of all pairs: scores and sums.
    "attend": 4 * 4 * 32 * 512 * 513 // 2,
}
# Accumulators of the register loop: enough to hide the latency of an addition.
CHAINS, STEPS = 14, 1 << 16
COPIED = 1 << 24


@dataclass(frozen=True, slots=True)
class Case:
    """Something that is run again and again; `work` is how many operations or bytes that takes."""

    name: str
    run: Callable[[], None]
    flops: float = 0.0
    bytes: float = 0.0


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    limits = limit_cases()
    cases = [case for case in twin_cases(options.only) if fnmatch(case.name, options.only)]
    best = measure([*limits, *cases], options.seconds)
    peak, bandwidth = limits[0].flops / best["peak"], limits[1].bytes / best["copy"]
    rows = [row_of(case, best[case.name], peak, bandwidth) for case in cases]
    if options.json:
        limits_of = {"flops": peak, "bytes": bandwidth}
        options.json.write_text(json.dumps({"limits": limits_of, "rows": rows}, indent=1))
    print(f"peak {peak / 1e9:.1f} GFLOP/s, copies {bandwidth / 1e9:.1f} GB/s (read and written)\n")
    print(table(rows))
    return 0


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="*", help="a pattern of entries of models/limits.wg")
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU time for each family")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser.parse_args(arguments)


def measure(cases: Sequence[Case], seconds: float) -> dict[str, float]:
    """The best CPU time of each case; they take turns until each had its share of time."""
    best, spent = {case.name: np.inf for case in cases}, dict.fromkeys((c.name for c in cases), 0.0)
    for case in cases:
        case.run()
    while waiting := [case for case in cases if spent[case.name] < seconds]:
        for case in waiting:
            started = time.thread_time()
            case.run()
            taken = time.thread_time() - started
            best[case.name] = min(best[case.name], taken)
            spent[case.name] += taken
    return best


def row_of(case: Case, seconds: float, peak: float, bandwidth: float) -> dict[str, float | str]:
    least = {"operations": case.flops / peak, "bytes": case.bytes / bandwidth}
    bound = max(least, key=lambda name: least[name])
    return {
        "family": case.name,
        "ms": 1e3 * seconds,
        "gflops": case.flops / seconds / 1e9,
        "gbytes": case.bytes / seconds / 1e9,
        "bound": bound,
        "share": least[bound] / seconds,
    }


def table(rows: Sequence[Mapping[str, float | str]]) -> str:
    lines = ["| family | ms | GFLOP/s | GB/s | bound by | share |", "|---|---|---|---|---|---|"]
    for row in rows:
        flops = f"{row['gflops']:.1f}" if row["gflops"] else ""
        figures = f"{row['ms']:.3f} | {flops} | {row['gbytes']:.1f}"
        lines.append(f"| {row['family']} | {figures} | {row['bound']} | {row['share']:.0%} |")
    return "\n".join(lines)


def limit_cases() -> list[Case]:
    module = WasmModule((1 + 2 * COPIED // PAGE,) * 2)
    for function in (register_loop(), copy_loop()):
        module.add(function, export=function.name)
    instance = Instance(compile_module(module.encode()), module.pages[0])
    flops = 2.0 * 4 * CHAINS * STEPS
    return [
        Case("peak", lambda: instance.call("peak", alone=True), flops=flops),
        Case("copy", lambda: instance.call("copy", alone=True), bytes=2.0 * COPIED),
    ]


def register_loop() -> WasmFunction:
    """`x = x * a + b` in so many chains that neither unit waits for the other."""
    f = WasmFunction("peak", [("thread", I32), ("threads", I32)])
    chains = [f.local(f"x{i}", V128) for i in range(CHAINS)]
    a, b, left = f.local("a", V128), f.local("b", V128), f.local("left", I32)
    f.f32(0.5).emit("f32x4.splat").set(a).f32(0.25).emit("f32x4.splat").set(b)
    f.i32(STEPS).set(left)
    again = f.loop()
    for x in chains:
        f.get(x).get(a).emit("f32x4.mul").get(b).emit("f32x4.add").set(x)
    f.get(left).i32(1).emit("i32.sub").tee(left).br_if(again).end()
    f.i32(0)
    for x in chains:
        f.get(x)
    for _ in chains[1:]:
        f.emit("f32x4.add")
    f.emit("v128.store")
    return f


def copy_loop() -> WasmFunction:
    """Copies COPIED bytes, four vectors an iteration."""
    f = WasmFunction("copy", [("thread", I32), ("threads", I32)])
    at = f.local("at", I32)
    again = f.loop()
    for offset in range(PAGE, PAGE + 64, 16):
        f.get(at).get(at).emit("v128.load", offset=offset)
        f.emit("v128.store", offset=offset + COPIED)
    f.get(at).i32(64).emit("i32.add").tee(at).i32(COPIED - PAGE).emit("i32.lt_u").br_if(again).end()
    return f


def twin_cases(pattern: str) -> list[Case]:
    """The entries of the model, each with the bytes of all tensors that its kernels bind."""
    wanted = [name for name in entry_names() if fnmatch(name, pattern)]
    schedule = compile_file(MODEL, entries=wanted).schedule
    twin = write_twin(schedule)
    assert twin is not None
    pages = ceil_div(twin.bytes + twin.scratch, PAGE)
    instance = Instance(compile_module(twin.code), pages)
    _fill(instance, twin.bytes)
    cases = []
    for name, entry in schedule.entries.items():
        moved = sum(place.bytes for d in entry.dispatches for place in d.regions)
        run = _caller(instance, name)
        cases.append(Case(name, run, flops=FLOPS.get(name, 0), bytes=moved))
    return cases


def entry_names() -> list[str]:
    return [line.split()[1].split("(")[0] for line in MODEL.read_text().splitlines()
            if line.strip().startswith("entry ")]  # fmt: skip


def _fill(instance: Instance, size: int) -> None:
    """All tensors hold random numbers; moments of optimizers are not negative."""
    words = instance.data()[: size // WORD * WORD].view(np.float32)[256:]
    words[:] = np.random.default_rng(0).uniform(0.0, 0.5, words.size).astype(np.float32)


def _caller(instance: Instance, name: str) -> Callable[[], None]:
    return lambda: instance.call(name, alone=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
