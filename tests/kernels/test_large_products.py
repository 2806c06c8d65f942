"""Large matrix products at sizes that no tile divides, also with the largest tiles of `tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from tint_compiler import compile_all
from wgcc.compiler import compile_file

LAYER = """
model Layer {
  param w: f32[388, 260] ~ normal(0.0, 0.1)
  param b: f32[260] ~ normal(0.0, 0.1)
  optimizer opt: sgd { lr = 1.0 }

  fn forward(x: f32[199, 388]) -> f32[199, 260] = tanh(x @ w + b)

  entry train(x: f32[199, 388]) -> (loss: f32) {
    loss = sum(square(forward(x)))
    minimize loss with opt
    return loss
  }

  entry back(y: f32[199, 260]) -> (x: f32[199, 388]) = y @ transpose(w)
}
"""
# Sums of hundreds of terms, relative to the largest result.
ALLOWED = 1e-5


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layer")
    (folder / "layer.wg").write_text(LAYER, encoding="utf-8")
    compiled = compile_file(folder / "layer.wg", candidates=True)
    compiled.write(folder / "bundle")
    return folder / "bundle"


@pytest.mark.parametrize("profile", ["gpu", "candidate_0", "candidate_1", "candidate_2"])
def test_products_and_their_gradients(bundle: Path, device: Any, profile: str) -> None:
    model = wgcc_runtime.load(bundle, device=device, profile=profile)
    draw = np.random.default_rng(1)
    x, back = draw.normal(size=(199, 388)), draw.normal(size=(199, 260))
    w, b = (model.params()[name].astype(np.float64) for name in ("w", "b"))
    agree(model.call("back", y=back.astype(np.float32))["x"], back @ w.T)
    model.call("train", x=x.astype(np.float32))
    y = np.tanh(x @ w + b)
    slope = 2 * y * (1 - y**2)
    agree(w - model.params()["w"], x.T @ slope)
    agree(b - model.params()["b"], slope.sum(0))


def test_tint_accepts_the_largest_tiles(bundle: Path) -> None:
    kernels = sorted(bundle.glob("kernels/*.wgsl"))
    largest = [path for path in kernels if "const TM = 8u;" in path.read_text(encoding="utf-8")]
    problems = compile_all(largest)
    assert largest and not any(problems.values()), problems


def agree(found: np.ndarray, expected: np.ndarray) -> None:
    assert np.abs(found - expected).max() <= ALLOWED * np.abs(expected).max()
