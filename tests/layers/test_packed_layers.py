"""Layers of 4 and 8 bits: results and gradients of inputs against numpy, on GPUs and the twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from tint_compiler import compile_all

TEXT = """
dim I = 64, O = 24, V = 40
model Packed {
  table: Q8Table[V, I](group = 16)
  four: Q4Linear[I, O]
  eight: Q8Linear[I, O](group = 16, bias = true)
  entry one(x: f32[1, I]) -> (y: f32[1, O]) = four(x) + eight(x)
  entry many(x: f32[20, I]) -> (y: f32[20, O]) = four(x) + eight(x)
  entry pull(x: f32[20, I], g: f32[20, O]) -> (dx: f32[20, I]) =
    grad(sum(g * (four(x) + eight(x))), x)
  entry look(ids: i32[5]) -> (y: f32[5, V]) = table.scores(table(ids))
}
"""
TUNED = """
dim I = 64, O = 24, N = 12
layer Base[I, O] {
  four: Q4Linear[I, O]
  eight: Linear[I, O]
  fn forward(x: f32[.., I]) -> f32[.., O] = four(x) + eight(x)
}
layer Packed[I, O] {
  inner: Base[I, O]
  replace "inner.eight" with Q8Linear(group = 16, bias = true)
  fn forward(x: f32[.., I]) -> f32[.., O] = inner(x)
}
model Tuned {
  frozen base: Packed[I, O]
  replace "base.inner.*" with Lora(rank = 4, alpha = 8.0)
  optimizer opt: sgd { lr = 0.1 }
  entry train(x: f32[N, I], y: f32[N, O]) -> (loss: f32) {
    loss = mse(base(x), y)
    minimize loss with opt
    return loss
  }
}
"""
RNG = np.random.default_rng(0)
WEIGHTS: dict[str, Any] = {
    "four.w": RNG.integers(0, 256, (32, 24), dtype=np.uint8),
    "four.scale": RNG.normal(size=(2, 24)).astype(np.float32),
    "four.low": RNG.normal(size=(2, 24)).astype(np.float32),
    "eight.w": RNG.integers(-128, 128, (64, 24)).astype(np.int8),
    "eight.scale": (RNG.normal(size=(4, 24)) / 100).astype(np.float32),
    "eight.b": RNG.normal(size=24).astype(np.float32),
    "table.w": RNG.integers(-128, 128, (40, 64)).astype(np.int8),
    "table.scale": (RNG.normal(size=(40, 4)) / 100).astype(np.float32),
}
# Sums of 64 products in f32.
NEAR = 2e-6


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    (folder / "model.wg").write_text(TEXT)
    return build(folder / "model.wg", folder / "bundle")


def matrix() -> Any:
    """Both linear maps as one matrix of f64."""
    pairs = WEIGHTS["four.w"].reshape(2, 16, 24)
    q = np.concatenate([pairs & 15, pairs >> 4], axis=1).astype(np.float64)
    four = q * WEIGHTS["four.scale"][:, None] + WEIGHTS["four.low"][:, None]
    eight = WEIGHTS["eight.w"].reshape(4, 16, 24) * WEIGHTS["eight.scale"][:, None].astype(float)
    return four.reshape(64, 24) + eight.reshape(64, 24)


def test_packed_weights_are_their_numbers(bundle: Path, machine: Any) -> None:
    x = RNG.normal(size=(20, 64)).astype(np.float32)
    g = RNG.normal(size=(20, 24)).astype(np.float32)
    rows = WEIGHTS["table.w"].reshape(40, 4, 16) * WEIGHTS["table.scale"][..., None].astype(float)
    table, ids = rows.reshape(40, 64), np.array([3, 39, 0, 7, 7], np.int32)
    with wgcc_runtime.load(bundle, device=machine, weights=WEIGHTS) as model:
        expected = x @ matrix() + WEIGHTS["eight.b"]
        assert near(model.many(x)["y"], expected)
        assert near(model.one(x[:1])["y"], expected[:1])
        assert near(model.pull(x, g)["dx"], g @ matrix().T)
        assert near(model.look(ids)["y"], table[ids] @ table.T)


def near(result: Any, expected: Any) -> bool:
    return bool(np.abs(result - expected).max() <= NEAR * np.abs(expected).max())


def test_tint_takes_kernels_of_packed_weights(bundle: Path) -> None:
    messages = compile_all(sorted((bundle / "kernels").glob("*.wgsl")))
    assert len(messages) > 3 and not any(messages.values())


def test_a_correction_of_packed_layers_learns_as_in_numpy(tmp_path: Path, machine: Any) -> None:
    """What an inner layer replaced is replaced again, and only corrections are trained."""
    (tmp_path / "model.wg").write_text(TUNED)
    bundle = build(tmp_path / "model.wg", tmp_path / "bundle")
    x = RNG.normal(size=(12, 64)).astype(np.float32) / 8
    y = RNG.normal(size=(12, 24)).astype(np.float32)
    packed = {f"base.inner.{name}": a for name, a in WEIGHTS.items() if not name.startswith("tab")}
    drawn = {
        f"base.inner.{layer}.lora_{part}": RNG.normal(0.0, 0.1, shape).astype(np.float32)
        for layer in ("four", "eight")
        for part, shape in (("a", (64, 4)), ("b", (4, 24)))
    }
    with wgcc_runtime.load(bundle, device=machine, weights={**packed, **drawn}) as model:
        losses = [float(model.train(x, y)["loss"]) for _ in range(6)]
        after = model.params()
    assert near(np.array(losses), np.array(numpy_losses(x, y, drawn)))
    assert {n for n in after if not np.array_equal(after[n], {**packed, **drawn}[n])} == set(drawn)


def numpy_losses(x: Any, y: Any, drawn: dict[str, Any]) -> list[float]:
    """Six steps of gradient descent in f64; both corrections are scaled by alpha / rank = 2."""
    pairs = [
        [drawn[f"base.inner.{layer}.lora_{part}"].astype(float) for part in "ab"]
        for layer in ("four", "eight")
    ]
    losses = []
    for _ in range(6):
        error = x @ (matrix() + sum(2 * a @ b for a, b in pairs)) + WEIGHTS["eight.b"] - y
        losses.append(float(np.mean(error**2)))
        pull = 2 * x.T @ (error * 2 / error.size)
        pairs = [[a - 0.1 * pull @ b.T, b - 0.1 * a.T @ pull] for a, b in pairs]
    return losses
