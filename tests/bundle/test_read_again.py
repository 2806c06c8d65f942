"""Large weights that no entry changes are not kept on the host, in Python and JavaScript."""

from __future__ import annotations

import copy
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import wgcc_runtime
import wgcc_runtime.weights as weights
from building import TWIN
from web_stacks import run_node
from wgcc.compiler import compile_file
from wgcc_runtime.errors import WgccError

CORRECTED = """
model Corrected {
  frozen param base: f32[1500, 1500] ~ external
  param w: f32[1500, 2] ~ normal(0.0, 0.1)
  state cache: f32[64, 100] = 0.0
  optimizer opt: adam { lr = 0.1 }
  entry train(x: f32[1, 1500]) -> (loss: f32) {
    loss = mean((x @ base @ w - 1.0) ** 2)
    minimize loss with opt
    return loss
  }
  entry note(x: f32[100], at: i32) -> (total: f32) {
    cache[at] := x
    return sum(cache)
  }
}
"""


@pytest.fixture(scope="module")
def corrected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with 9 MB of weights that no entry changes."""
    folder = tmp_path_factory.mktemp("corrected")
    (folder / "model.wg").write_text(CORRECTED, encoding="utf-8")
    base = np.random.default_rng(3).normal(size=(1500, 1500), scale=0.02).astype(np.float32)
    compile_file(folder / "model.wg").write(folder / "b", {"base": base})
    return folder / "b"


def test_weights_that_nothing_changes_are_not_kept_on_the_host(
    corrected: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "LARGE_BYTES", 1 << 20)
    path = tmp_path / "w.safetensors"
    path.write_bytes((corrected / "weights.safetensors").read_bytes())
    x = np.sin(np.arange(1500, dtype=np.float32))[None]
    tracemalloc.start()
    with wgcc_runtime.load(corrected, weights=path, device=TWIN) as model:
        base, start = model.params()["base"], model.params()["w"]
        model.fit({"x": x}, steps=3)
        learned = model.params()["w"]
        model.note(x[0, :100], 3)
        model.snapshot()
        assert tracemalloc.get_traced_memory()[0] < 1.5 * base.nbytes  # `base` is one copy
        tracemalloc.stop()
        model.reset()
        assert np.array_equal(model.params()["w"], start) and not model.state()["cache"].any()
        model.recover()
        assert np.array_equal(model.params()["w"], learned)
        for again in (model.recover, model.reset):
            model.load_params({"base": np.zeros_like(base)}, strict=False)
            again()
            assert np.array_equal(model.params()["base"], base)
        path.unlink()
        model.load_params({"base": np.zeros_like(base)}, strict=False)
        with pytest.raises(WgccError, match="cannot read"):
            model.reset()


def test_weights_that_are_read_again_must_not_have_changed(
    corrected: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "LARGE_BYTES", 1 << 20)
    path = tmp_path / "w.safetensors"
    path.write_bytes((corrected / "weights.safetensors").read_bytes())
    with wgcc_runtime.load(corrected, weights=path, device=TWIN) as model:
        base = model.params()["base"]
        path.write_bytes((corrected / "weights.safetensors").read_bytes())
        model.reset()  # The device has them.
        model.load_params({"base": np.zeros_like(base)}, strict=False)
        with pytest.raises(WgccError, match="was changed since it was opened"):
            model.reset()


def test_copies_need_the_bundle_where_it_was_and_no_working_directory(
    corrected: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "LARGE_BYTES", 1 << 20)
    shutil.copytree(corrected, tmp_path / "b")
    monkeypatch.chdir(tmp_path)
    with wgcc_runtime.load("b", device=TWIN) as model:
        monkeypatch.chdir(corrected)
        with copy.deepcopy(model) as twin:
            assert np.array_equal(twin.params()["base"], model.params()["base"])
        (tmp_path / "b").rename(tmp_path / "moved")
        with pytest.raises(WgccError, match="was moved or deleted"):
            copy.deepcopy(model)


def test_javascript_keeps_no_weights_that_nothing_changes(corrected: Path) -> None:
    seen = run_node("read_again.mjs", str(corrected))
    assert seen["reads"] == [1, 1, 1, 1, 2, 3]
    first, *others, zero, again, snapshot = seen["sums"]
    assert others == [first, first] and zero == 0 and again == first and snapshot == 0
    assert seen["isRestored"]
