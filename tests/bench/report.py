"""Tables of the measurements of run.py, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

PRODUCT_FLOPS = 2 * 512**3
TITLES = {
    "a": "MLP 1-64-64-1, batch 256",
    "b": "MLP 784-256-128-10, batch 128",
    "c": "GPT of 2 blocks, width 128, 64 tokens, batch 8",
    "matmul": "product of two 512 x 512 matrices",
    "cnn": "examples/cnn, a training step",
    "mamba": "examples/mamba, a training step",
    "gqa_decode": "examples/gqa_decode, one token",
    "lora": "examples/lora, a training step",
}
# Those that all libraries have.
COMPARED = ("a", "b", "c", "matmul")
WASM = {
    "chromium-wgcc-wasm": "wgcc, Chromium",
    "chromium-jax-wasm": "jax-js, Chromium",
    "chromium-tfjs-wasm": "tfjs, Chromium",
    "node-wgcc-wasm": "wgcc, Node",
    "node-wgcc-wasm-2": "wgcc, Node, 2 threads",
    "node-jax-wasm": "jax-js, Node",
    "python-wgcc-wasm": "wgcc, Python",
    "python-torch-cpu": "PyTorch",
}
# What a setup is compared with: the twin on the same engine.
TWINS = {"chromium": "chromium-wgcc-wasm", "node": "node-wgcc-wasm", "python": "python-wgcc-wasm"}
WEBGPU = {
    "chromium-wgcc-webgpu": "wgcc",
    "chromium-jax-webgpu": "jax-js",
    "chromium-tfjs-webgpu": "tfjs",
}

Seen = dict[str, Any]
Models = dict[str, dict[str, Seen]]


def report(found: dict[str, Any]) -> str:
    """Setups as columns, models as rows; then every figure of every setup."""
    models: Models = found["models"]
    own = {name: seen for name, seen in models.items() if name in COMPARED}
    parts = [
        _section("Without a GPU, one thread: a step (and of wgcc's on that engine)", _steps(own)),
        _section("WebGPU, on SwiftShader: dispatches, peak memory, code, a step", _gpu(own)),
        _section("The twin beside the same bundle on SwiftShader", _beside(models)),
        _section("wgcc build, CPU seconds, and twin.wasm", _builds(found["builds"])),
        _section("Everything", _all(models)),
        *(_section(f"Kernels of {title}", rows) for title, rows in _kernels(models)),
    ]
    return "\n\n".join(part for part in parts if part)


def _section(title: str, rows: Sequence[Sequence[str]]) -> str:
    if len(rows) < 2:
        return ""
    head, *lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([f"### {title}", "", head, "|" + "---|" * len(rows[0]), *lines])


def ms_of(seen: Seen | None) -> float | None:
    return median(seen["ms"]) if seen and seen.get("ms") else None


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _steps(models: Models) -> list[list[str]]:
    rows = [["", *WASM.values()]]
    for model, setups in models.items():
        rows.append([TITLES[model], *(_step(model, name, setups) for name in WASM)])
    return rows


def _step(model: str, name: str, setups: dict[str, Seen]) -> str:
    ms = ms_of(setups.get(name))
    if ms is None:
        return "failed" if "failed" in setups.get(name, {}) else ""
    twin = ms_of(setups.get(TWINS[name.split("-")[0]]))
    text = f"{_number(ms)} ms"
    if model == "matmul":
        text += f", {PRODUCT_FLOPS / ms / 1e6:.1f} GFLOP/s"
    return text if not twin or ms == twin else f"{text} ({ms / twin:.2f} ×)"


def _gpu(models: Models) -> list[list[str]]:
    rows = [["", *WEBGPU.values()]]
    for model, setups in models.items():
        rows.append([TITLES[model], *(_gpu_cell(setups.get(name, {})) for name in WEBGPU)])
    return rows


def _gpu_cell(seen: Seen) -> str:
    ms = ms_of(seen)
    if ms is None:
        return "failed" if "failed" in seen else ""
    counts = seen["counts"]
    peak, code = counts["peak"] / 1e6, seen["code"] / 1000
    return f"{counts['step']}, {_number(peak)} MB, {code:.0f} KB, {_number(ms)} ms"


def _beside(models: Models) -> list[list[str]]:
    rows = [["", "twin", "SwiftShader", "times as fast", "first step: twin", "SwiftShader"]]
    for model, setups in models.items():
        twin, gpu = (setups.get(f"chromium-wgcc-{kind}") for kind in ("wasm", "webgpu"))
        fast, slow = ms_of(twin), ms_of(gpu)
        if twin and gpu and fast and slow:
            first = [f"{median(seen['firstSteps']) / 1000:.2f} s" for seen in (twin, gpu)]
            ratio = f"{slow / fast:.1f}"
            steps = [f"{_number(fast)} ms", f"{_number(slow)} ms"]
            rows.append([TITLES[model], *steps, ratio, *first])
    return rows


def _builds(builds: dict[str, Seen]) -> list[list[str]]:
    rows = [["", "with the twin", "without", "ratio", "twin.wasm", "gzipped"]]
    for model, seen in builds.items():
        ratio = f"{seen['twin'] / seen['none']:.2f}"
        sizes = [f"{seen[key] / 1000:.1f} KB" for key in ("bytes", "gzip")]
        times = [f"{seen[key]:.2f} s" for key in ("twin", "none")]
        rows.append([TITLES[model], *times, ratio, *sizes])
    return rows


def _all(models: Models) -> list[list[str]]:
    head = ["model", "setup", "ms", "best", "steps", "CPU ms", "first step s", "code KB", "losses"]
    rows = [head]
    for model, setups in models.items():
        rows += [[model, name, *_figures(seen)] for name, seen in setups.items()]
    return rows


def _figures(seen: Seen) -> list[str]:
    ms = ms_of(seen)
    if ms is None:
        return ["failed", *[""] * 6]
    count = seen["steps"]
    first = f"{median(seen['firstSteps']) / 1000:.3f}" if "firstSteps" in seen else ""
    code = f"{seen['code'] / 1000:.1f}" if "code" in seen else ""
    losses = " ".join(f"{loss:.5f}" for loss in (seen["losses"][0], seen["losses"][-1]))
    cpu = f"{seen['cpu'] / count:.3f}"
    return [f"{ms:.3f}", f"{min(seen['ms']):.3f}", str(count), cpu, first, code, losses]


def _kernels(models: Models) -> list[tuple[str, list[list[str]]]]:
    return [
        (f"{model}, {name}, {seen['kernels']['method']}", _kernel_rows(seen["kernels"]))
        for model, setups in models.items()
        for name, seen in setups.items()
        if "kernels" in seen
    ]


def _kernel_rows(profile: Seen) -> list[list[str]]:
    rows = sorted(profile["rows"], key=lambda row: -row["ms"])
    total = sum(row["ms"] for row in rows) or 1.0
    lines = [["ms", "share", "GFLOP/s", "kernel", "line"]]
    for row in rows:
        ms, rate = row["ms"], "-"
        if row["flops"] and ms:
            rate = f"{row['flops'] / ms / 1e6:.2f}"
        lines.append([f"{ms:.3f}", f"{ms / total:.1%}", rate, row["kernel"], row["at"]])
    return lines
