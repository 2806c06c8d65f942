"""Moving averages of parameters: entries `with ema`, and checkpoints loaded with them."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import numpy as np
import pytest

import wgcc_runtime
from elaborated import program
from web_stacks import build_web, run_job
from wgcc.passes.pipeline import run_passes
from wgcc_runtime import WgccError
from wgcc_runtime.weights import load_weights

MODEL = """
model Averaged {
  fc: Linear[3, 4]
  frozen out: Linear[4, 2]
  optimizer opt: adam { lr = 0.1; ema = 0.8 }
  entry train(x: f32[5, 3], y: f32[5, 2]) -> (loss: f32) {
    loss = mse(out(tanh(fc(x))), y)
    minimize loss with opt
    return loss
  }
  entry plain(x: f32[5, 3]) -> (y: f32[5, 2]) = out(tanh(fc(x)))
  entry averaged(x: f32[5, 3]) -> (y: f32[5, 2]) with ema = out(tanh(fc(x)))
}
"""
RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(5, 3)).astype(np.float32), RNG.normal(size=(5, 2)).astype(np.float32)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("averages")
    (folder / "model.wg").write_text(MODEL, encoding="utf-8")
    return build_web(folder / "model.wg", folder / "bundle")


def forward(arrays: dict[str, np.ndarray]) -> np.ndarray:
    hidden = np.tanh(X @ arrays["fc.w"] + arrays["fc.b"])
    found: np.ndarray = hidden @ arrays["out.w"] + arrays["out.b"]
    return found


def averages(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    prefix = "opt/opt/ema/"
    own = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
    assert own.keys() == {"fc.w", "fc.b"}
    return {**arrays, **own}


def test_an_entry_reads_averages_and_parameters_that_have_none() -> None:
    entry = run_passes(program(MODEL)).entries["averaged"]
    assert [value.name for value in entry.params] == ["out.w", "out.b"]
    assert [value.name for value in entry.state] == ["opt/opt/ema/fc.w", "opt/opt/ema/fc.b"]


def test_entries_and_checkpoints_with_averages(bundle: Path, target: str, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    with wgcc_runtime.load(bundle, device=target) as model:
        np.testing.assert_array_equal(model.averaged(x=X)["y"], model.plain(x=X)["y"])
        for _ in range(4):
            model.train(x=X, y=Y)
        model.save(path)
        arrays = load_weights(path)[0]
        expected, mean = forward(arrays), forward(averages(arrays))
        assert np.abs(expected - mean).max() > 0.05
        np.testing.assert_allclose(model.plain(x=X)["y"], expected, atol=1e-5)
        np.testing.assert_allclose(model.averaged(x=X)["y"], mean, atol=1e-5)
        model.load(path, weights="ema")
        # Averages begin at the parameters that were loaded.
        np.testing.assert_allclose(model.plain(x=X)["y"], mean, atol=1e-5)
        np.testing.assert_allclose(model.averaged(x=X)["y"], mean, atol=1e-5)
        assert model.steps_done == 0 and model.state()["opt/opt/step"] == 0
        model.load(path, weights_only=True)
        np.testing.assert_allclose(model.averaged(x=X)["y"], expected, atol=1e-5)


@pytest.mark.parametrize(
    "weights, code, text",
    [
        ("mean", "name", 'there are "ema" and "NAME.ema"'),
        ("other.ema", "weights", "has no averages of `other`"),
    ],
)
def test_what_is_refused(bundle: Path, tmp_path: Path, weights: str, code: str, text: str) -> None:
    path = tmp_path / "run.safetensors"
    with wgcc_runtime.load(bundle, device="wasm") as model:
        model.save(path)
        with pytest.raises(WgccError, match=text) as found:
            model.load(path, weights=weights)
        assert found.value.code == code
    with pytest.raises(WgccError, match="has no averages"):
        wgcc_runtime.load(bundle, device="wasm", weights="ema")
    with wgcc_runtime.load(bundle, device="wasm") as model:
        model.save(path, optimizer=False)
        with pytest.raises(WgccError, match="must not leave the optimizer out"):
            model.load(path, weights="ema")


def test_two_averages_of_one_parameter_need_a_name(tmp_path: Path) -> None:
    from wgcc_runtime.weights import with_averages

    arrays = {"w": np.zeros(1), "opt/a/ema/w": np.ones(1), "opt/b/ema/w": np.full(1, 2.0)}
    with pytest.raises(WgccError, match="several averages of `w`"):
        with_averages(arrays, "ema", tmp_path)
    assert with_averages(arrays, "b.ema", tmp_path)["w"] == 2.0


def test_javascript_does_the_same(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    with wgcc_runtime.load(bundle, device="wasm") as model:
        for _ in range(4):
            model.train(x=X, y=Y)
        model.save(path)
        plain, averaged = model.plain(x=X)["y"], model.averaged(x=X)["y"]
    file = base64.b64encode(path.read_bytes()).decode()
    bundle = Path(shutil.copytree(bundle, tmp_path / "own"))
    shutil.copy(path, bundle / "weights.safetensors")
    with wgcc_runtime.load(bundle, device="wasm", weights="ema") as model:
        np.testing.assert_array_equal(model.plain(x=X)["y"], averaged)
    found = run_job("node", bundle, "averages", {"file": file, "x": X.flatten().tolist()})
    expected = {"plain": plain, "averaged": averaged}
    for name, array in expected.items():
        np.testing.assert_allclose(found["trained"][name], array.flatten(), atol=1e-5)
        np.testing.assert_allclose(found["loaded"][name], averaged.flatten(), atol=1e-5)
    np.testing.assert_allclose(found["own"], averaged.flatten(), atol=1e-5)
    assert found["codes"] == ["weights", "name", "name"]
