"""Frozen weights of one byte: products read them packed, and the example that rounds a GPT."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import wgcc_runtime
from adapters import ROOT
from building import TWIN, build
from tint_compiler import compile_all
from wgcc.compiler import compile_file, read_program
from wgcc.evaluate import Session
from wgcc.passes.pipeline import run_passes

EXAMPLE = ROOT / "examples" / "chargpt"
MODEL = """
dim B = 5, K = 64, N = 36, G = 16, V = 50
model Products {
  frozen param w: i8[K, N] ~ external
  frozen param turned: i8[N, K] ~ external
  frozen param raw: u8[K, N] ~ external
  frozen param scale: f32[N] ~ external
  frozen param zero: u8[N] ~ external
  frozen param groups: f32[K / G, N] ~ external
  frozen param table: i8[V, K] ~ external
  frozen param rows: f32[V] ~ external
  frozen param filters: i8[3, 3, 4, 8] ~ external
  frozen param gain: f32[8] ~ external

  entry columns(x: f32[B, K]) -> (y: f32[B, N]) = x @ (f32(w) * scale)
  entry after(x: f32[B, K]) -> (y: f32[B, N]) = (x @ f32(w)) * scale
  entry turned_rows(x: f32[B, K]) -> (y: f32[B, N]) = x @ transpose(f32(turned) * scale[:, new])
  entry zeros_of(x: f32[B, K]) -> (y: f32[B, N]) = x @ ((f32(raw) - f32(zero)) * scale)
  entry grouped(x: f32[B, K]) -> (y: f32[B, N]) =
    x @ reshape(reshape(f32(w), [K / G, G, N]) * groups[:, new], [K, N])
  entry one(x: f32[1, K]) -> (y: f32[1, N]) = x @ (f32(w) * scale)
  entry looked_up(i: u8[B]) -> (y: f32[B, K]) = f32(gather(table, i)) * gather(rows, i)[:, new]
  entry scored(x: f32[B, K]) -> (y: f32[B, V]) = x @ transpose(f32(table) * rows[:, new])
  entry image(x: f32[2, 9, 9, 4]) -> (y: f32[2, 9, 9, 8]) = conv2d(x, f32(filters) * gain, pad = 1)
  entry slope(x: f32[B, K]) -> (y: f32[B, K]) = grad(sum(sin(x @ (f32(w) * scale))), x)
}
"""


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("products") / "products.wg"
    path.write_text(MODEL, encoding="utf-8")
    return path


def drawn(types: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    draw, found = np.random.default_rng(0), {}
    for name, (dtype, shape) in types.items():
        whole = {"i8": (-127, 127), "u8": (0, 49)}.get(dtype)
        if whole:
            found[name] = draw.integers(*whole, shape, endpoint=True).astype(f"{dtype[0]}1")
        else:
            low = 0.002 if name in ("scale", "groups", "rows", "gain") else -1.0
            found[name] = draw.uniform(low, 5 * abs(low), shape).astype(np.float32)
    return found


def test_no_copy_of_the_weights_is_stored(products: Path) -> None:
    plan = compile_file(products).planned.plan
    for name, entry in plan["entries"].items():
        # The gradient stores one result of the first product.
        assert len(entry["dispatches"]) == (2 if name == "slope" else 1), name
    sizes = {"w": 64 * 36, "turned": 64 * 36, "raw": 64 * 36, "table": 50 * 64, "filters": 288}
    floats = 4 * (36 + 64 // 16 * 36 + 50 + 8)
    assert sum(sizes.values()) + floats <= plan["memory"]["params"] <= 11_264 + 10 * 256
    assert plan["memory"]["temps"] <= 4 * 5 * 36 + 16


def test_products_of_bytes_give_what_numpy_gives(products: Path, target: Any) -> None:
    program = run_passes(read_program(products)[1], until="opt")
    weights = drawn({n: (t.type.dtype, t.type.shape) for n, t in program.params.items()})
    session = Session(program, weights, {})
    bundle = build(products, products.parent / "bundle")
    if target == TWIN:
        assert not any(compile_all(sorted(bundle.glob("kernels/*"))).values())
    with wgcc_runtime.load(bundle, device=target, weights=weights) as model:
        for name, graph in program.entries.items():
            inputs = drawn({v.name: (v.dtype, v.shape) for v in graph.inputs})
            found, wanted = model.call(name, **inputs)["y"], session.call(name, inputs)["y"]
            error = np.abs(found - wanted).max() / (1 + np.abs(wanted).max())
            assert error <= 1e-5, f"{name}: {error}"


def test_the_example_loses_nothing(tmp_path: Path) -> None:
    """With the weights that its train.py gave, which the example lora ships."""
    trained = {
        name.removeprefix("base."): array
        for name, array in load_file(ROOT / "examples" / "lora" / "base.safetensors").items()
    }
    save_file(trained, tmp_path / "trained.safetensors")
    for source, folder in (("model", "bundle"), ("quantised", "bytes")):
        build(EXAMPLE / f"{source}.wg", tmp_path / folder)
    script = [sys.executable, EXAMPLE / "quantise.py", "bundle", "bytes", "trained.safetensors"]
    done = subprocess.run(
        script, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = re.findall(r"([\d,]+) bytes  test loss (\d\.\d+)  next letter ([\d.]+)%", done.stdout)
    (full, loss, right), (small, new_loss, new_right) = (
        (int(size.replace(",", "")), float(loss), float(right)) for size, loss, right in lines
    )
    assert small < full / 3
    assert abs(new_loss - loss) < 0.005 and abs(new_right - right) < 0.5
    stored = json.loads(
        (tmp_path / "bytes.safetensors").read_bytes()[8:].split(b"}}", 1)[0] + b"}}"
    )
    assert stored["base.blocks.0.attn.qkv.w"]["dtype"] == "I8"


def test_the_example_has_no_more_dispatches_than_before() -> None:
    """But for one in each block of a token: a gate of f32 weights shares its product's kernel."""
    plans = [compile_file(EXAMPLE / f"{name}.wg").planned.plan for name in ("model", "quantised")]
    for entry, blocks in (("score", 0), ("decode", 2)):
        full, small = (len(plan["entries"][entry]["dispatches"]) for plan in plans)
        assert small <= full + blocks
