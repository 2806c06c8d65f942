"""`load(fast=True)`: numpy's BLAS computes large products of the twin, within the tolerances that
GPUs have; see `panels/blas.py` of the compiler and `wasm_products.py` of the runtime."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import wgcc
import wgcc_runtime
from line_training import refused
from wgcc.cli import cli
from wgcc.compiler import compile_file
from wgcc.errors import Source
from wgcc_runtime import Model
from wgcc_runtime.blas_threads import blas_threads
from wgcc_runtime.strict_json import plan_digest

# Each product has at least 4,000,000 operations: fewer are left to the twin.
FORMS = """
dim N = 160, K = 130, M = 136, B = 3

model Forms {
  param w: f32[K, M] ~ normal(0.0, 0.1)
  param v: f32[M, K] ~ normal(0.0, 0.1)
  param b: f32[M] ~ normal(0.0, 0.1)

  entry plain(x: f32[N, K]) -> (y: f32[N, M]) { return x @ w }
  entry right_transposed(x: f32[N, K]) -> (y: f32[N, M]) { return x @ transpose(v) }
  entry left_transposed(x: f32[K, N]) -> (y: f32[N, M]) { return transpose(x) @ w }
  entry both(x: f32[K, N]) -> (y: f32[N, M]) { return transpose(x) @ transpose(v) }
  entry square(x: f32[N, K]) -> (y: f32[N, N]) { return x @ transpose(x) }
  entry batch(x: f32[B, N, K], z: f32[B, K, M]) -> (y: f32[B, N, M]) { return x @ z }
  entry heads(x: f32[N, B, K], z: f32[N, B, K]) -> (y: f32[B, N, N]) {
    return rearrange(x, "n b k -> b n k") @ rearrange(z, "n b k -> b k n")
  }
  entry bias(x: f32[N, K]) -> (y: f32[N, M]) { return relu(x @ w + b) }
  entry gelu(x: f32[N, K]) -> (y: f32[N, M], t: f32[M, N]) {
    y = gelu(x @ w + b)
    return y, transpose(y)
  }
  entry joined(x: f32[N, K]) -> (y: f32[N, M], z: f32[N, M]) {
    return x @ w, silu(x @ transpose(v))
  }
  entry rows(x: f32[N, K]) -> (y: f32[N]) { return sum(x @ w, axis = -1) }
}
"""
TRAINING = """
dim N = 256, K = 96, M = 104, T = 4

model Net {
  a: Linear[K, M]
  norm: LayerNorm[M]
  b: Linear[M, K]

  fn forward[N](x: f32[N, K]) -> f32[N, K] = x |> a |> gelu |> norm |> b
  optimizer opt: adam { lr = 1e-2 }

  entry train(x: f32[N, K], y: f32[N, K]) -> (loss: f32) {
    loss = mse(forward(x), y)
    minimize loss with opt
    return loss
  }
  entry rounds(xs: f32[T, N, K]) -> (h: f32[N, K]) {
    fn step(h: f32[N, K], x: f32[N, K]) -> (h: f32[N, K], y: f32[N, K]) {
      h = tanh(forward(h) + x)
      return h, h
    }
    h, _ = scan(step, zeros(f32[N, K]), xs)
    return h
  }
}
"""
IMAGES = """
model Images {
  a: Conv2d[8, 32](k = 3, pad = 1)
  b: Conv2d[32, 24](k = 3, stride = 2)

  optimizer opt: sgd { lr = 1e-2 }

  entry train(x: f32[4, 20, 20, 8]) -> (loss: f32) {
    loss = mean(square(x |> a |> relu |> b))
    minimize loss with opt
    return loss
  }
}
"""
PACKED = """
model Packed {
  linear: Int8Linear[256, 256]

  entry predict(x: f32[64, 256]) -> (y: f32[64, 256]) { return linear(x) }
}
"""


def build(text: str, folder: Path, fast: bool = True, **options: Any) -> Path:
    compile_file(Source("model.wg", text), fast=fast, **options).write(folder)
    return folder


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(FORMS, tmp_path_factory.mktemp("forms") / "bundle")


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(TRAINING, tmp_path_factory.mktemp("training") / "bundle")


def load(folder: Path, **options: Any) -> Model:
    return wgcc_runtime.load(folder, device="wasm", **options)


def inputs_of(model: Model, entry: str) -> dict[str, Any]:
    random = np.random.default_rng(5)
    spec = model.plan.entries[entry].inputs
    return {key: random.normal(size=tensor.shape).astype("f4") for key, tensor in spec.items()}


def products(model: Model, entry: str) -> list[Mapping[str, Any]]:
    assert model.plan.twin and model.plan.twin.products is not None
    return list(model.plan.twin.products.get(entry, ()))


def assert_passed(model: Model) -> None:
    """The expected numbers of a self-test come from numpy, its tolerances are those of GPUs."""
    results = wgcc_runtime.run_selftest(model)
    assert results
    assert not [str(result) for result in results if not result.passed]


FORM_NAMES = (
    *("plain", "right_transposed", "left_transposed", "both", "square", "batch", "heads"),
    *("bias", "gelu", "joined", "rows"),
)


@pytest.mark.parametrize("entry", FORM_NAMES)
@pytest.mark.parametrize("threads", (1, 3))
def test_each_form_of_a_product_agrees_with_the_twin(forms: Path, entry: str, threads: int) -> None:
    with load(forms, threads=threads) as exact, load(forms, threads=threads, fast=True) as fast:
        assert products(fast, entry), "the twin computes it alone"
        given = inputs_of(exact, entry)
        wanted, results = (model.call(entry, **given) for model in (exact, fast))
        for key, array in wanted.items():
            np.testing.assert_allclose(results[key], array, rtol=2e-5, atol=2e-4)
            assert np.abs(array).max() > 0.1


def test_forms_agree_with_numpy(forms: Path) -> None:
    with load(forms, fast=True) as model:
        assert_passed(model)


def test_operands_in_memory_are_not_copied(forms: Path, training: Path) -> None:
    with load(training, fast=True) as model:
        # LayerNorm is computed where its result is read.
        assert any(p["packs"] for p in products(model, "train"))
    with load(forms, fast=True) as model:
        for entry in ("plain", "right_transposed", "left_transposed", "both", "batch"):
            assert [(p["packs"], p["finishes"]) for p in products(model, entry)] == [(False,) * 2]
        assert [(p["packs"], p["finishes"]) for p in products(model, "bias")] == [(False, True)]


def test_training_follows_the_twin(training: Path) -> None:
    """Bias gradients are sums in the kernel of a product; loops call products in each round."""
    random = np.random.default_rng(1)
    data = {name: random.normal(size=(512, 96)).astype("f4") for name in "xy"}
    with load(training) as exact, load(training, fast=True) as fast:
        assert_passed(fast)
        losses = [model.fit(data, steps=40, every=1).losses for model in (exact, fast)]
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-3)
        assert losses[1][-1] < 0.9 * losses[1][0]
        assert products(fast, "rounds")
        given = inputs_of(exact, "rounds")
        wanted, result = (model.call("rounds", **given)["h"] for model in (exact, fast))
        np.testing.assert_allclose(result, wanted, atol=1e-2)


def test_halves_of_a_step_are_the_step(training: Path) -> None:
    """Several processes exchange gradients between the halves."""
    with load(training, fast=True) as whole, load(training, fast=True) as parts:
        given = inputs_of(whole, "train")
        whole.call("train", **given)
        machine = parts._machine
        for key, array in given.items():
            machine.write(parts.plan.entries["train"].inputs[key], array)
        for half in ("gradients", "update"):
            encoder = machine.encoder()
            machine.run_half(encoder, "train", half)
            machine.submit(encoder)
        for name, array in whole.params().items():
            np.testing.assert_array_equal(parts.params()[name], array)


def test_convolutions_agree_with_numpy(tmp_path: Path) -> None:
    with load(build(IMAGES, tmp_path / "bundle"), fast=True, threads=2) as model:
        assert len(products(model, "train")) >= 3
        assert_passed(model)


def test_packed_weights_are_left_to_the_twin(tmp_path: Path) -> None:
    folder = build(PACKED, tmp_path / "bundle")
    weights = {
        "linear.w": np.arange(256 * 256).reshape(256, 256).astype("i1"),
        "linear.scale": np.full(256, 0.1, "f4"),
        "linear.b": np.ones(256, "f4"),
    }
    with load(folder, weights=weights) as exact, load(folder, weights=weights, fast=True) as fast:
        assert not products(fast, "predict")
        given = inputs_of(exact, "predict")
        wanted, result = (model.call("predict", **given)["y"] for model in (exact, fast))
        np.testing.assert_array_equal(result, wanted)


def test_weights_of_f16_are_rounded_as_without(tmp_path: Path) -> None:
    text = FORMS.replace("model Forms {", "model Forms {\n  precision = f16")
    with load(build(text, tmp_path / "bundle"), fast=True) as model:
        assert_passed(model)


def test_the_twin_itself_is_the_same_module(training: Path, tmp_path: Path) -> None:
    """Exact bits do not depend on how a bundle was built."""
    plain = build(TRAINING, tmp_path / "bundle", fast=False)
    with load(plain) as one, load(training) as other:
        given = inputs_of(one, "train")
        for model in (one, other):
            model.call("train", **given)
        for name, array in one.params().items():
            np.testing.assert_array_equal(other.params()[name], array)
        recorded = [model.plan.selftest["entries"]["train"]["twin"] for model in (one, other)]
        assert recorded[0] == recorded[1]


def test_a_step_with_a_nan_is_undone(training: Path) -> None:
    with load(training, fast=True) as model:
        given = inputs_of(model, "train")
        before = model.params()
        with refused("nan", "train"):
            model.call("train", **{**given, "x": np.full((256, 96), 3e38, "f4")})
        for name, array in before.items():
            np.testing.assert_array_equal(model.params()[name], array)


def test_model_says_that_it_is_fast(forms: Path) -> None:
    with load(forms, threads=1, fast=True) as model:
        assert (model.device_name, model.is_fast) == ("WebAssembly (1 thread and BLAS)", True)
    with load(forms, threads=1) as model:
        assert (model.device_name, model.is_fast) == ("WebAssembly (1 thread)", False)


def test_bundles_without_what_it_needs_are_refused(tmp_path: Path) -> None:
    plain = build(IMAGES, tmp_path / "plain", fast=False)
    with refused("name", "built without --fast"):
        load(plain, fast=True)
    none = build(IMAGES, tmp_path / "none", twin=False)
    with refused("name", "the bundle has none"):
        wgcc_runtime.load(none, fast=True)


HOSTILE = {
    "beyond the memory": ("memory", {"left": [1 << 31, 0, 1 << 31, 4]}),
    "another dispatch": ("plan", {"dispatch": 9}),
    "not whole words": ("plan", {"out": [6, 0, 544, 4]}),
    "no rows": ("plan", {"rows": 0}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_views_are_refused(forms: Path, tmp_path: Path, name: str) -> None:
    code, change = HOSTILE[name]
    folder = copy_with(forms, tmp_path / "bundle", change)
    with refused(code):
        load(folder, fast=True)


def copy_with(bundle: Path, folder: Path, change: Mapping[str, Any]) -> Path:
    shutil.copytree(bundle, folder)
    plan = json.loads((folder / "plan.json").read_text())
    plan["twin"]["products"]["plain"][0] |= change
    plan["sha256"] = plan_digest(plan)
    (folder / "plan.json").write_text(json.dumps(plan))
    return folder


def test_threads_of_blas_are_as_before_afterwards() -> None:
    from wgcc_runtime import blas_threads as module

    functions = module._functions()
    assert functions, "numpy of PyPI brings OpenBLAS"
    get, put = functions
    before = get()
    put(3)
    try:
        with blas_threads(1):
            assert get() == 1
        assert get() == 3
        with blas_threads(8):
            assert get() == 3
    finally:
        put(before)


def test_commands_take_it(tmp_path: Path) -> None:
    def run(*words: object, code: int = 0) -> str:
        result = CliRunner().invoke(cli, [str(word) for word in words])
        assert result.exit_code == code, result.output
        return result.output

    (tmp_path / "net.wg").write_text(TRAINING)
    folder, data = tmp_path / "net", tmp_path / "data.npz"
    run("build", tmp_path / "net.wg", "-o", folder, "--fast")
    random = np.random.default_rng(1)
    np.savez(data, **{name: random.normal(size=(256, 96)).astype("f4") for name in "xy"})
    out = run("train", folder, data, "--steps", "2", "--fast", "--device", "wasm")
    assert "and BLAS)" in out
    xs = tmp_path / "xs.npy"
    np.save(xs, random.normal(size=(4, 256, 96)).astype("f4"))
    run("run", folder, "rounds", "-i", xs, "--fast", "--device", "wasm", "--json")
    run("build", tmp_path / "net.wg", "-o", folder)
    assert "built without --fast" in run("run", folder, "rounds", "-i", xs, "--fast", code=1)


def test_compiled_models_can_be_fast() -> None:
    with wgcc.compile(TRAINING, device="wasm", fast=True) as model:
        assert model.is_fast and products(model, "train")
        given = inputs_of(model, "train")
        loss = model.call("train", **given)["loss"]
        with copy.copy(model) as other:
            assert other.is_fast
    with wgcc.compile(TRAINING, device="wasm") as model:
        assert not model.is_fast
        np.testing.assert_allclose(model.call("train", **given)["loss"], loss, rtol=1e-5)
