"""A bundle written by hand, for tests of the runtime: linear regression with momentum SGD.

Entries: `train(x, y) -> (loss)`, `predict(x) -> (p)`, `pick(ids) -> (rows)`, `forget()`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from wgcc_runtime.bundle_files import code_digest
from wgcc_runtime.drawn import initial_values, random_words

ROWS, COLS, RATE, DECAY = 8, 4, 0.1, 0.9
SEED = 3
COPY = {"kind": "copy", "of": "w"}

PREDICT = """
@group(0) @binding(0) var<storage, read> x: array<f32, 32>;
@group(0) @binding(1) var<storage, read> w: array<f32, 4>;
@group(0) @binding(2) var<storage, read_write> p: array<f32, 8>;

@compute @workgroup_size(SIZE)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = id.x;
  if (i >= 8u) { return; }
  p[i] = x[4u * i] * w[0] + x[4u * i + 1u] * w[1] + x[4u * i + 2u] * w[2] + x[4u * i + 3u] * w[3];
}
"""
GRADIENT = """
@group(0) @binding(0) var<storage, read> x: array<f32, 32>;
@group(0) @binding(1) var<storage, read> y: array<f32, 8>;
@group(0) @binding(2) var<storage, read> p: array<f32, 8>;
@group(0) @binding(3) var<storage, read_write> g: array<f32, 4>;
@group(0) @binding(4) var<storage, read_write> loss: array<f32, 1>;

@compute @workgroup_size(4)
fn main(@builtin(global_invocation_id) id: vec3u) {
  var slope = 0.0;
  var total = 0.0;
  for (var i = 0u; i < 8u; i++) {
    let e = p[i] - y[i];
    slope += e * x[4u * i + id.x];
    total += e * e;
  }
  g[id.x] = slope * 0.25;
  if (id.x == 0u) { loss[0] = total * 0.125; }
}
"""
UPDATE = """
@group(0) @binding(0) var<storage, read> g: array<f32, 4>;
@group(0) @binding(1) var<storage, read_write> w: array<f32, 4>;
@group(0) @binding(2) var<storage, read_write> m: array<f32, 4>;
@group(0) @binding(3) var<storage, read_write> step: array<u32, 1>;

@compute @workgroup_size(4)
fn main(@builtin(global_invocation_id) id: vec3u) {
  m[id.x] = 0.9 * m[id.x] + g[id.x];
  w[id.x] = w[id.x] - 0.1 * m[id.x];
  if (id.x == 0u) { step[0] += 1u; }
}
"""
PICK = """
@group(0) @binding(0) var<storage, read> w: array<f32, 4>;
@group(0) @binding(1) var<storage, read> ids: array<i32, 3>;
@group(0) @binding(2) var<storage, read_write> rows: array<f32, 3>;

@compute @workgroup_size(3)
fn main(@builtin(global_invocation_id) id: vec3u) {
  rows[id.x] = select(0.0, w[clamp(ids[id.x], 0, 3)], ids[id.x] >= 0);
}
"""
FORGET = """
@group(0) @binding(0) var<storage, read_write> m: array<f32, 4>;

@compute @workgroup_size(4)
fn main(@builtin(global_invocation_id) id: vec3u) {
  m[id.x] = 0.0;
}
"""
FINITE = """
@group(0) @binding(0) var<storage, read> w: array<u32, 4>;
@group(0) @binding(1) var<storage, read> m: array<u32, 4>;
@group(0) @binding(2) var<storage, read_write> flag: array<atomic<u32>, 1>;

@compute @workgroup_size(4)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let bad = 0x7f800000u;
  if ((w[id.x] & bad) == bad || (m[id.x] & bad) == bad) { atomicOr(&flag[0], 1u); }
}
"""
SOURCES = {
    "predict": PREDICT.replace("SIZE", "64"),
    "gradient": GRADIENT,
    "update": UPDATE,
    "pick": PICK,
    "forget": FORGET,
    "predict_candidate_0": PREDICT.replace("SIZE", "8"),
    "finite": FINITE,
}
# Buffers by index, for the bindings below.
PARAMS, STATE, TEMP, INPUT, OUTPUT, GUARD = range(6)


def write_bundle(folder: Path, **changes: Any) -> Path:
    """Writes the bundle; `changes` replace keys of the plan."""
    (folder / "kernels").mkdir(parents=True)
    for name, source in SOURCES.items():
        (folder / "kernels" / f"{name}.wgsl").write_text(source, encoding="utf-8")
    write_plan(folder, {**make_plan(), **changes})
    return folder


def write_plan(folder: Path, plan: dict[str, Any]) -> None:
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")


def make_plan() -> dict[str, Any]:
    plan: dict[str, Any] = {
        "format": "wgcc-bundle",
        "version": 1,
        "generator": "wgcc 0.1.0",
        "model": {"name": "Line", "source": "line.wg", "sha256": "0" * 64},
        "requires": {"features": [], "limits": {"maxStorageBuffersPerShaderStage": 5}},
        "buffers": [
            {"name": "params", "bytes": 256, "role": "params"},
            {"name": "state", "bytes": 1024, "role": "state"},
            {"name": "temp", "bytes": 512, "role": "temp"},
            {"name": "input", "bytes": 1024, "role": "input"},
            {"name": "output", "bytes": 768, "role": "output"},
            {"name": "guard", "bytes": 4, "role": "output"},
        ],
        "tensors": _tensors(),
        "kernels": [_kernel(name, access) for name, access in _ACCESS.items()],
        "entries": _entries(),
        "profiles": {"candidate_0": {"train": [{"dispatch": 0, "kernel": 5, "grid": [1, 1, 1]}]}},
        "optimizer": {"opt": {"kind": "sgd", "step": "opt/opt/step", "entry": ["train"]}},
        "memory": {"params": 256, "state": 1024, "temps": 512, "io": 1796, "peak": 3588},
    }
    plan["selftest"] = _selftest()
    return plan


_ACCESS = {
    "predict": ["read", "read", "read_write"],
    "gradient": ["read", "read", "read", "read_write", "read_write"],
    "update": ["read", "read_write", "read_write", "read_write"],
    "pick": ["read", "read", "read_write"],
    "forget": ["read_write"],
    "predict_candidate_0": ["read", "read", "read_write"],
    "finite": ["read", "read", "read_write"],
}
_SIZES = {
    "predict": 64,
    "gradient": 4,
    "update": 4,
    "pick": 3,
    "forget": 4,
    "predict_candidate_0": 8,
    "finite": 4,
}


def _kernel(name: str, access: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "file": f"{name}.wgsl",
        "sha256": code_digest(SOURCES[name]),
        "entry": "main",
        "workgroup": [_SIZES[name], 1, 1],
        "access": access,
    }


def _tensor(dtype: str, shape: list[int], at: tuple[int, int], role: str, **more: Any) -> Any:
    return {
        "dtype": dtype,
        "shape": shape,
        "buffer": at[0],
        "offset": at[1],
        "role": role,
        **more,
    }


def _tensors() -> dict[str, Any]:
    draw = {"kind": "normal", "args": {"mean": 0.0, "std": 0.5}}
    zeros = {"kind": "zeros", "args": {}}
    return {
        "w": _tensor("f32", [COLS], (PARAMS, 0), "param", trainable=True, init=draw),
        "opt/opt/momentum/w": _tensor("f32", [COLS], (STATE, 0), "state", init=zeros),
        "opt/opt/step": _tensor("u32", [], (STATE, 256), "state", init=zeros),
        "rng/seed": _tensor(
            "u32", [], (STATE, 512), "state", init={"kind": "value", "values": [SEED]}
        ),
        "opt/opt/ema/w": _tensor("f32", [COLS], (STATE, 768), "state", init=COPY),
        "train/x": _tensor("f32", [ROWS, COLS], (INPUT, 0), "input"),
        "train/y": _tensor("f32", [ROWS], (INPUT, 256), "input"),
        "predict/x": _tensor("f32", [ROWS, COLS], (INPUT, 0), "input"),
        "pick/ids": _tensor("i32", [3], (INPUT, 512), "input"),
        "train/loss": _tensor("f32", [], (OUTPUT, 0), "output"),
        "train/flag": _tensor("u32", [], (GUARD, 0), "output"),
        "predict/p": _tensor("f32", [ROWS], (OUTPUT, 256), "output"),
        "pick/rows": _tensor("f32", [3], (OUTPUT, 512), "output"),
    }


def _binding(buffer: int, offset: int, size: int) -> dict[str, int]:
    return {"buffer": buffer, "offset": offset, "size": size}


def _dispatch(kernel: int, *bindings: dict[str, int], label: str = "") -> dict[str, Any]:
    return {
        "kernel": kernel,
        "bindings": list(bindings),
        "grid": [1, 1, 1],
        "at": f"line.wg:{kernel + 1}",
        "label": label,
    }


TRAINED_ROWS = {"count": ROWS, "inputs": ["x", "y"], "dim": "B", "why": "it trains"}
PREDICTED_ROWS = {"count": ROWS, "inputs": ["x"], "dim": "B", "outputs": {"p": "rows"}}


def _entries() -> dict[str, Any]:
    x, y = _binding(INPUT, 0, 128), _binding(INPUT, 256, 32)
    w, m, step = _binding(PARAMS, 0, 16), _binding(STATE, 0, 16), _binding(STATE, 256, 4)
    p, g, loss = _binding(TEMP, 0, 32), _binding(TEMP, 256, 16), _binding(OUTPUT, 0, 4)
    ids, rows = _binding(INPUT, 512, 12), _binding(OUTPUT, 512, 12)
    # `p` is read and `g` written in one dispatch, so they may not share a buffer.
    g = _binding(OUTPUT, 256, 16)
    # Not `w` and `m` themselves: a test that changes these bindings must not change the others.
    tested = (_binding(PARAMS, 0, 16), _binding(STATE, 0, 16), _binding(GUARD, 0, 4))
    return {
        "train": {
            "inputs": {"x": "train/x", "y": "train/y"},
            "outputs": {"loss": "train/loss"},
            "dispatches": [
                _dispatch(0, x, w, p, label="p"),
                _dispatch(1, x, y, p, g, loss, label="g"),
                _dispatch(2, g, w, m, step, label="w"),
            ],
            "writes": ["w", "opt/opt/momentum/w", "opt/opt/step"],
            "training": True,
            "guard": {
                "flag": "train/flag",
                "dispatches": [_dispatch(6, *tested, label="finite")],
            },
            "rows": TRAINED_ROWS,
        },
        "predict": {
            "inputs": {"x": "predict/x"},
            "outputs": {"p": "predict/p"},
            "dispatches": [_dispatch(0, x, w, _binding(OUTPUT, 256, 32), label="p")],
            "writes": [],
            "training": False,
            "rows": PREDICTED_ROWS,
        },
        "pick": {
            "inputs": {"ids": "pick/ids"},
            "outputs": {"rows": "pick/rows"},
            "ranges": {"ids": {"low": 0, "high": 3, "ignore": -1}},
            "dispatches": [_dispatch(3, w, ids, rows, label="rows")],
            "writes": [],
            "training": False,
        },
        "forget": {
            "inputs": {},
            "outputs": {},
            "dispatches": [_dispatch(4, m, label="m")],
            "writes": ["opt/opt/momentum/w"],
            "training": False,
        },
    }


class Reference:
    """The same model in numpy, float64."""

    def __init__(self) -> None:
        draw = {"kind": "normal", "args": {"mean": 0.0, "std": 0.5}}
        self.w = initial_values(draw, (COLS,), SEED, "w").astype(np.float64)
        self.m = np.zeros(COLS)

    def train(self, x: Any, y: Any) -> float:
        error = x.astype(np.float64) @ self.w - y
        self.m = DECAY * self.m + 2 / ROWS * x.T.astype(np.float64) @ error
        self.w = self.w - RATE * self.m
        return float(np.mean(error**2))


def _uniform(name: str, shape: tuple[int, ...], step: int) -> Any:
    words = random_words(1, name, int(np.prod(shape)), step)
    return ((words >> np.uint32(8)) * 2.0**-23 - 1.0).astype(np.float32).reshape(shape)


def _selftest() -> dict[str, Any]:
    model, outputs = Reference(), []
    for step in range(3):
        x, y = _uniform("train/x", (ROWS, COLS), step), _uniform("train/y", (ROWS,), step)
        loss = model.train(x, y)
        outputs.append({"loss": {"sum": loss, "abs": abs(loss), "first": [loss]}})
    draw = {"kind": "uniform", "low": -1, "high": 1}
    train = {"inputs": {"x": draw, "y": draw}, "steps": 3, "outputs": outputs, "tolerance": 1e-5}
    return {"seed": 1, "entries": {"train": train}}
