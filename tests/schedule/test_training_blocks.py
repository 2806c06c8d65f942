"""Blocks of a GPT, as people write them: what their kernels share, and their gradients' numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from kernel_families import family
from tint_compiler import compile_all
from wgcc.access.model import access_of
from wgcc.compiler import Compiled, compile_file
from wgcc.evaluate import Session
from wgcc.schedule.kernels.context import tree_of

# Widths that fill tiles, and some that do not; gradients of two and of three weights in one kernel.
MODEL = """
dim B = 2, T = 37, D = 64, H = 2, F = 92, V = 33

layer Block[D, H, F] {
  norm1: RMSNorm[D](eps = 1e-5)
  attn: Attention[D, H, H]
  norm2: LayerNorm[D]
  mlp: SwiGLU[D, F]

  fn forward[B, T](x: f32[B, T, D]) -> f32[B, T, D] {
    x = x + attn(norm1(x))
    return x + mlp(norm2(x))
  }
}

model GPT {
  tok: Embedding[V, D](std = 0.02)
  first: Block[D, H, F]
  second: Block[D, H, F]
  norm: RMSNorm[D](eps = 1e-5)
  optimizer opt: sgd { lr = 1.0 }

  entry train(ids: i32[B, T], labels: i32[B, T]) -> (loss: f32) {
    x = tok(ids) |> first |> second |> norm
    loss = cross_entropy(x @ transpose(tok.w), labels)
    minimize loss with opt
    return loss
  }
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    path = tmp_path_factory.mktemp("blocks") / "gpt.wg"
    path.write_text(MODEL)
    return compile_file(path)


@pytest.fixture(scope="module")
def bundle(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blocks") / "bundle"
    compiled.write(folder)
    return folder


def test_gradients(compiled: Compiled, bundle: Path, machine: Any) -> None:
    """With a rate of 1, parameters change by their gradients."""
    model = wgcc_runtime.load(bundle, device=machine)
    rng = np.random.default_rng(3)
    ids, labels = (rng.integers(0, 33, (2, 37)).astype(np.int32) for _ in range(2))
    before = {name: np.array(array) for name, array in model.params().items()}
    # Gains that are not all equal.
    before = {n: a + rng.normal(size=a.shape).astype(np.float32) / 8 for n, a in before.items()}
    model.load_params(before)
    session = Session(compiled.program, before, model.state())
    wanted = session.call("train", {"ids": ids, "labels": labels})
    found = model.train(ids=ids, labels=labels)
    assert abs(found["loss"] - wanted["loss"]) <= 1e-5 * abs(wanted["loss"])
    for name, array in model.params().items():
        gradient = before[name] - session.params[name]
        error = np.abs(array - session.params[name]).max() / np.abs(gradient).max()
        assert error <= 1e-4, f"the gradient of {name} is off by {error:.1e}"


TWO = """
dim N = 64
model Two {
  seed = 3
  a: Linear[64, 64](bias = false)
  b: Linear[64, 64](bias = false)
  optimizer oa: sgd { lr = 1e-1 }
  optimizer ob: adam { lr = 1e-2 }
  entry train(x: f32[N, 64], y: f32[N, 64]) -> (loss: f32) {
    loss = mse(silu(a(x)) * b(x), y)
    minimize loss with oa over "a.*"
    minimize loss with ob over "b.*"
    return loss
  }
  entry by_turns(x: f32[N, 64], y: f32[N, 64]) -> (la: f32, lb: f32) {
    la = mse(a(x), y)
    minimize la with oa over "a.*"
    lb = mse(tanh(b(x)), y + a(x))
    minimize lb with ob over "b.*"
    return la, lb
  }
}
"""


def test_weights_of_one_tensor_with_two_optimizers(tmp_path: Path) -> None:
    path = tmp_path / "two.wg"
    path.write_text(TWO)
    compiled = compile_file(path)
    compiled.write(tmp_path / "two")
    rng = np.random.default_rng(5)
    data = {name: rng.normal(size=(64, 64)).astype(np.float32) for name in ("x", "y")}
    with wgcc_runtime.load(tmp_path / "two", device="wasm") as model:
        session = Session(compiled.program, model.params(), model.state())
        for entry in ("train", "by_turns"):
            wanted, found = session.call(entry, data), getattr(model, entry)(**data)
            for name, value in found.items():
                np.testing.assert_allclose(value, wanted[name], rtol=1e-5)
        for name, array in model.params().items():
            np.testing.assert_allclose(array, session.params[name], rtol=1e-4, atol=1e-6)


def test_weights_of_one_tensor_share_a_kernel(compiled: Compiled) -> None:
    """Queries, keys and values; gate and up: one product each for all gradients."""
    labels = [d.label for d in compiled.schedule.entries["train"].dispatches]
    weights = [label for label in labels if label.startswith("d.second.") and label.endswith(".w")]
    assert len(weights) == 4, weights


NORMS = """
dim R = 4096, D = 36
model Norms {
  before: Linear[D, D]
  first: LayerNorm[D]
  fc: Linear[D, D]
  second: RMSNorm[D](eps = 1e-5)
  optimizer opt: sgd { lr = 1.0 }

  entry train(x: f32[R, D], t: f32[R, D]) -> (loss: f32) {
    loss = mse(x |> before |> first |> fc |> second, t)
    minimize loss with opt
    return loss
  }
}
"""


@pytest.fixture(scope="module")
def norms(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    path = tmp_path_factory.mktemp("norms") / "norms.wg"
    path.write_text(NORMS)
    return compile_file(path)


@pytest.fixture(scope="module")
def norms_bundle(norms: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("norms") / "bundle"
    norms.write(folder)
    return folder


def test_gains_of_norms(norms: Compiled, norms_bundle: Path, machine: Any) -> None:
    """Kernels that make gradients row by row add up those of gains and shifts, too."""
    model = wgcc_runtime.load(norms_bundle, device=machine)
    rng = np.random.default_rng(5)
    x, t = (rng.normal(size=(4096, 36)).astype(np.float32) for _ in range(2))
    before = {n: a + rng.normal(size=a.shape) / 8 for n, a in model.params().items()}
    before = {name: array.astype(np.float32) for name, array in before.items()}
    model.load_params(before)
    session = Session(norms.program, before, model.state())
    session.call("train", {"x": x, "t": t})
    model.train(x=x, t=t)
    for name, array in model.params().items():
        gradient = before[name] - session.params[name]
        error = np.abs(array - session.params[name]).max() / np.abs(gradient).max()
        assert error <= 1e-4, f"the gradient of {name} is off by {error:.1e}"


def test_tint_accepts_the_kernels(bundle: Path, norms_bundle: Path) -> None:
    kernels = [path for folder in (bundle, norms_bundle) for path in folder.glob("kernels/*.wgsl")]
    refused = {path: messages for path, messages in compile_all(kernels).items() if messages}
    assert kernels and not refused


def test_gains_of_norms_have_no_kernels_of_their_own(norms: Compiled) -> None:
    """But for the last step of all sums, which is one."""
    dispatches = norms.schedule.entries["train"].dispatches
    sums = [d.launches["gpu"] for d in dispatches if family(d.launches["gpu"]) == "row_groups"]
    assert len(sums) == 2
    for launch in sums:
        access = access_of(tree_of(launch.kernel), launch.grid)
        assert access.workgroups >= 256 and access.bank_conflicts == 1
        assert access.sector_ratio <= 1.3 and access.live <= 32
