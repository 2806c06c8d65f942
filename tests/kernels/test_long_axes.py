"""Axes beyond 65,535: llvmpipe ends loops of a thread silently after that many iterations.

Every kernel family with a loop along an axis is compared with numpy for a longer axis, of prime
length, on both adapters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from wgcc.compiler import Compiled, compile_file
from wgcc.errors import WgError
from wgcc.evaluate import Session

Array = np.ndarray[Any, Any]

MODEL = """
dim N = 70001
model Long {
  entry products(a: f32[2, N], b: f32[N, 3], c: f32[3, 2, N], d: f32[3, N, 4])
    -> (y: f32[2, 3], z: f32[3, 2, 4], thin: f32[1, 3]) {
    return a @ b, c @ d, a[: 1] @ b
  }

  entry rows(x: f32[2, N]) -> (s: f32[2], p: f32[2, N], at: i32[2]) {
    return sum(x, axis = 1), 1000.0 * softmax(x), argmax(x, axis = 1)
  }

  entry columns(x: f32[N, 2]) -> (s: f32[2], most: f32[2]) {
    return sum(x, axis = 0), max(x, axis = 0)
  }

  entry recurrence(x: f32[2, N]) -> (y: f32[2, N]) = cumsum(x - 0.5, axis = 1)

  entry scatter(w: f32[5, 3], x: f32[N, 3], ids: i32[N]) -> (g: f32[5, 3]) =
    grad(sum(gather(w, ids) * x), w)

  entry table(w: f32[N, 2], x: f32[11, 2], ids: i32[11]) -> (g: f32[N, 2]) =
    grad(sum(gather(w, ids) * x), w)

  entry loss(x: f32[2, N], label: i32[2]) -> (y: f32, g: f32[2, N]) {
    y = cross_entropy(x, label)
    return y, 1000.0 * grad(y, x)
  }

  entry affine(x: f32[N, 3], w: f32[3, 4], b: f32[4]) -> (dw: f32[3, 4], db: f32[4]) {
    y = mean((x @ w + b) ** 2)
    return grad(y, w), grad(y, b)
  }

  entry attend(q: f32[1, 2, 3, 4], k: f32[1, 1, N, 4])
    -> (y: f32[1, 2, 3, 4], dq: f32[1, 2, 3, 4]) {
    y = attention(q, k, k)
    return y, 10.0 * grad(sum(y ** 2), q)
  }

  entry attended(q: f32[1, 1, N, 4], k: f32[1, 1, 5, 4], v: f32[1, 1, 5, 4])
    -> (dk: f32[1, 1, 5, 4], dv: f32[1, 1, 5, 4]) {
    y = mean(attention(q, k, v) ** 2)
    return 1000.0 * grad(y, k), grad(y, v)
  }

  entry states(u: f32[1, N, 3], a: f32[3, 2], b: f32[1, N, 2], c: f32[1, N, 2])
    -> (y: f32[1, N, 3], da: f32[3, 2]) {
    y = selective_scan(u, sigmoid(u), -a, b, c)
    return y, grad(mean(y ** 2), a)
  }

  entry choose(x: f32[2, N]) -> (id: i32[2]) = sample(50.0 * x, temperature = 0.01, top_k = 1)
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    path = tmp_path_factory.mktemp("long") / "long.wg"
    path.write_text(MODEL, encoding="utf-8")
    return compile_file(path)


@pytest.fixture(scope="module")
def bundle(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long") / "bundle"
    compiled.write(folder)
    return folder


def inputs(compiled: Compiled, entry: str) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {
        value.name: rng.uniform(0, 1, value.shape).astype(np.float32)
        if value.dtype == "f32"
        else rng.integers(0, 5, value.shape).astype(np.int32)
        for value in compiled.program.entries[entry].inputs
    }


@pytest.fixture(scope="module")
def wanted(compiled: Compiled) -> dict[str, dict[str, Array]]:
    start = {name: np.zeros(t.type.shape) for name, t in compiled.program.state.items()}
    session = Session(compiled.program, {}, start)
    return {name: session.call(name, inputs(compiled, name)) for name in compiled.program.entries}


def test_every_family_goes_to_the_end(
    device: Any, compiled: Compiled, bundle: Path, wanted: dict[str, dict[str, Array]]
) -> None:
    model = wgcc_runtime.load(bundle, device=device)
    for entry, outputs in wanted.items():
        found = model.call(entry, **inputs(compiled, entry))
        for name, array in outputs.items():
            # Sums of 70,000 terms in f32, relative to the largest result.
            error = float(np.abs(found[name] - array).max() / np.abs(array).max())
            assert error < 5e-4, f"{entry}.{name} is off by {error:.1e}"


def test_kernels_stay_below_the_limit(compiled: Compiled) -> None:
    iterations = [
        launch.iterations
        for entry in compiled.schedule.entries.values()
        for dispatch in entry.dispatches
        for launch in dispatch.launches.values()
    ]
    assert 4_000 < max(iterations) <= 65_535


def test_what_cannot_be_computed_correctly_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.wg"
    path.write_text("model M { entry run(x: f32[5000000]) -> (y: f32[5000000]) = cumprod(x) }\n")
    with pytest.raises(WgError) as caught:
        compile_file(path)
    (found,) = caught.value.diagnostics.errors
    assert found.code == "WG1001" and "software adapters end loops after 65,535" in found.message


@pytest.mark.parametrize("size", [33, 999_983, 1_000_000, 5_000_000])
def test_long_cumulative_sums_keep_their_digits(size: int, tmp_path: Path, machine: Any) -> None:
    """Blocks: summed one by one, a million tenths end 1 % off."""
    text = f"wg 1\nmodel M {{ entry predict(x: f32[{size}]) -> (y: f32[{size}]) = cumsum(x) }}\n"
    (tmp_path / "m.wg").write_text(text)
    build(tmp_path / "m.wg", tmp_path / "bundle")
    x = np.full(size, 0.1, np.float32)
    with wgcc_runtime.load(tmp_path / "bundle", device=machine) as model:
        got = model.predict(x=x)["y"]
    want = np.cumsum(x.astype(np.float64))
    assert np.max(np.abs(got - want) / want) < 1e-6
