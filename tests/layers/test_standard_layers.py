"""Standard layers that state or options make more than a formula: in numpy and on GPUs.

What PyTorch computes with the same weights is in test_importing_layers.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from elaborated import problems, program
from wgcc.bundle.emit import InitialValues
from wgcc.compiler import Compiled, compile_file
from wgcc.evaluate import Session
from wgcc.passes.pipeline import run_passes

MODEL = """
dim N = 2, C = 6
model M {
  conv: Conv1d[C, C](pad = 1)
  group: GroupNorm[C](groups = 3)
  instance: InstanceNorm[C](affine = true)
  act: PReLU[C](shared = true)
  slopes: PReLU[C]
  place: PositionalEncoding[C](p = 0.0)
  up: ConvTranspose1d[C, 4](k = 4, stride = 2, pad = 1)
  norm: WeightNorm[4, 5]
  spectral: SpectralNorm[5, 3](iterations = 2)
  bag: EmbeddingBag[9, 3](padding = 0, std = 1.0)
  total: EmbeddingBag[9, 3](mean = false, std = 1.0)
  optimizer opt: sgd { lr = 0.05 }

  fn forward(x: f32[N, 8, C]) -> f32[N, 16, 3] =
    x |> conv |> group |> act |> instance |> slopes |> place |> up |> norm |> spectral

  entry train(x: f32[N, 8, C], ids: i32[N, 5]) -> (loss: f32) {
    loss = mean(square(forward(x) - 1.0)) + mean(square(bag(ids))) + mean(square(total(ids)))
    minimize loss with opt
    return loss
  }
  entry predict(x: f32[N, 8, C]) -> (y: f32[N, 16, 3]) = forward(x)
  entry norms(x: f32[N, 8, C]) -> (a: f32[N, 8, C], b: f32[N, 8, C]) = (group(x), instance(x))
  entry spectrum(x: f32[N, 5]) -> (y: f32[N, 3]) = spectral(x)
  entry places(x: f32[N, 8, C]) -> (y: f32[N, 8, C]) = place(x)
  entry bags(ids: i32[N, 5]) -> (mean: f32[N, 3], sum: f32[N, 3]) = (bag(ids), total(ids))
}
"""
RNG = np.random.default_rng(8)
X = RNG.normal(size=(2, 8, 6)).astype(np.float32)
IDS = np.array([[1, 0, 3, 3, 0], [0, 0, 0, 0, 0]], np.int32)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    source = tmp_path_factory.mktemp("layers") / "model.wg"
    source.write_text(MODEL, encoding="utf-8")
    return compile_file(source)


def session() -> Session:
    found = run_passes(program(MODEL))
    values = dict(InitialValues(found))
    return Session(found, values, {n: values.get(n, 0) for n in found.state})


def test_spectral_norm_estimates_the_largest_singular_value() -> None:
    run = session()
    x = RNG.normal(size=(2, 5))
    for _ in range(30):
        run.call("train", {"x": X, "ids": IDS})
    w, b = run.params["spectral.w"], run.params["spectral.b"]
    wanted = x @ w / np.linalg.svd(w)[1][0] + b
    np.testing.assert_allclose(run.call("spectrum", {"x": x})["y"], wanted, rtol=2e-3)
    u, v = run.state["spectral.singular_u"], run.state["spectral.singular_v"]
    np.testing.assert_allclose([np.linalg.norm(u), np.linalg.norm(v)], [1, 1], rtol=1e-6)


def test_spectral_norm_works_before_training() -> None:
    run = session()
    w, x = run.params["spectral.w"], np.eye(2, 5)
    u = np.ones(3) / np.sqrt(3)
    wanted = x @ w / np.linalg.norm(w @ u) + run.params["spectral.b"]
    np.testing.assert_allclose(run.call("spectrum", {"x": x})["y"], wanted, rtol=1e-6)


def test_positional_encoding_alternates_sines_and_cosines() -> None:
    run = session()
    angle = np.arange(8)[:, None] / 10000.0 ** (np.arange(0, 6, 2) / 6)
    wanted = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(8, 6)
    found = run.call("places", {"x": np.zeros_like(X)})["y"]
    np.testing.assert_allclose(found, np.stack([wanted] * 2), atol=1e-6)


def test_embedding_bags_leave_padding_out() -> None:
    run = session()
    rows = run.params["bag.w"]
    found = run.call("bags", {"ids": IDS})
    wanted = [(rows[1] + 2 * rows[3]) / 3, np.zeros(3)]
    np.testing.assert_allclose(found["mean"], wanted, rtol=1e-6)
    np.testing.assert_allclose(found["sum"], run.params["total.w"][IDS].sum(1), rtol=1e-6)


def test_training_on_gpus_is_that_of_the_reference(
    compiled: Compiled, machine: Any, tmp_path: Path
) -> None:
    compiled.write(tmp_path / "bundle")
    model, run = wgcc_runtime.load(tmp_path / "bundle", device=machine), session()
    for _ in range(5):
        found, wanted = (call("train", x=X, ids=IDS)["loss"] for call in (model.call, by_name(run)))
        assert abs(found - wanted) <= 1e-5 * (1 + abs(wanted))
    for offset in (0.0, 1e4):
        x = (X + offset).astype(np.float32)
        found, wanted = (call("norms", x=x) for call in (model.call, by_name(run)))
        for key, array in wanted.items():
            np.testing.assert_allclose(found[key], array, atol=3e-6)
    found, wanted = (call("predict", x=X)["y"] for call in (model.call, by_name(run)))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    model.close()


def by_name(run: Session) -> Any:
    return lambda entry, **given: run.call(entry, given)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (
            "GroupNorm[10](groups = 3)",
            "WG0403 2 the number of channels must be a multiple of the number of groups",
        ),
        ("PositionalEncoding[5]", "WG0403 2 sines and cosines alternate: the width must be even"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(layer: str, message: str) -> None:
    found = problems(f"model M {{\n  f: {layer}\n  entry e(x: f32) -> (y: f32) = x\n}}\n")
    assert found == [message]
