"""Arenas that one binding cannot cover are cut into several buffers: the numbers stay the same.

The cut is made at a few hundred words here, so that small models have many buffers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc.passes.lay_out as lay_out
import wgcc.passes.prepare.own_gradients as join_arenas
import wgcc_runtime
from building import TWIN
from wgcc.compiler import Compiled, compile_file
from wgcc_runtime.errors import WgccError

# Two optimizers with all that runs over arenas: norm, clipping, accumulation, averages; one tensor
# is larger than a cut, one parameter is not trained, and state is larger than a cut, too.
MODEL = """
dim N = 5
model Cut {
  seed = 7
  a[4]: Linear[20, 20]
  wide: Linear[20, 40]
  frozen fixed: Linear[40, 13]
  state seen: f32[30, 20] = 0.0
  state other: f32[25, 20] = 0.0
  optimizer opt: adamw {
    lr = 1e-2
    clip_norm = 0.5
    accumulate = 2
    ema = 0.9
    weight_decay = 0.1
    group if axes < 2 { weight_decay = 0.0 }
  }
  optimizer plain: sgd {
    lr = 1e-2
    momentum = 0.9
  }
  fn scores(x: f32[N, 20]) -> f32[N, 13] {
    for part in a { x = tanh(part(x)) }
    return x |> wide |> fixed
  }
  entry train(x: f32[N, 20]) -> (loss: f32, norm: f32) {
    loss = 3.0 * mean(scores(x) ** 2)
    minimize loss with opt
    seen[: N] := x
    other[: N] := x
    return loss, opt.grad_norm
  }
  entry step(x: f32[N, 20]) -> (loss: f32) {
    loss = mean(log(2.0 + scores(x)) ** 2) * (1.0 + mean(x ** 2))
    minimize loss with plain
    return loss
  }
  entry averaged(x: f32[N, 20]) -> (y: f32[N, 13]) with ema = scores(x)
}
"""
CUT = 600
ROWS = np.random.default_rng(3).uniform(-1, 1, (6, 5, 20)).astype(np.float32)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("cut")
    whole, cut = compiled(folder), compiled(folder, CUT)
    whole.write(folder / "whole")
    cut.write(folder / "cut")
    return {"whole": folder / "whole", "cut": folder / "cut"}


def compiled(folder: Path, words: int | None = None) -> Compiled:
    path = folder / "model.wg"
    path.write_text(MODEL, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        if words:
            patch.setattr(lay_out, "CUT_WORDS", words)
        return compile_file(path)


def test_every_arena_is_cut_between_tensors(tmp_path: Path) -> None:
    plan = compiled(tmp_path, CUT).plan()
    buffers = {buffer["name"]: buffer["bytes"] // 4 for buffer in plan["buffers"]}
    tensors = {name: t for name, t in plan["tensors"].items() if t["role"] in ("param", "state")}
    names = list(buffers)
    for arena in ("params", "grads", "opt/opt/exp_avg", "opt/opt/ema", "opt/plain/momentum"):
        assert sum(name == arena or name.startswith(f"{arena}.") for name in names) >= 5, arena
    assert "state.1" in buffers
    for name, words in buffers.items():
        inside = [t for t in tensors.values() if names[t["buffer"]] == name]
        assert words <= CUT or len(inside) == 1 or not inside, name
    whole = compiled(tmp_path).plan()
    assert "params.1" not in {buffer["name"] for buffer in whole["buffers"]}
    assert whole["tensors"].keys() == plan["tensors"].keys()


def train(bundle: Path, machine: Any) -> tuple[list[Any], dict[str, Any], Any]:
    with wgcc_runtime.load(bundle, device=machine) as model:
        found = []
        for x in ROWS[:4]:
            found += [model.train(x=x)["loss"], model.train(x=x)["norm"], model.step(x=x)["loss"]]
        found.append(model.averaged(x=ROWS[0])["y"])
        with pytest.raises(WgccError) as raised:
            model.step(x=np.full((5, 20), 1e30, np.float32))
        assert raised.value.code == "nan"
        return found, model.params(), model.train(x=ROWS[5])["norm"]


def test_the_numbers_are_those_of_whole_arenas(bundles: dict[str, Path], machine: Any) -> None:
    whole, params, after = train(bundles["whole"], machine)
    cut, cut_params, cut_after = train(bundles["cut"], machine)
    for a, b in zip((*whole, after), (*cut, cut_after), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-7)
    for name, value in params.items():
        np.testing.assert_allclose(value, cut_params[name], rtol=2e-5, atol=1e-6, err_msg=name)


def test_checkpoints_are_the_same_files(bundles: dict[str, Path], tmp_path: Path) -> None:
    with wgcc_runtime.load(bundles["whole"], device=TWIN) as whole:
        for x in ROWS[:3]:
            whole.train(x=x)
        whole.save(tmp_path / "w.safetensors", optimizer=True)
        wanted = whole.train(x=ROWS[3])
    with wgcc_runtime.load(bundles["cut"], device=TWIN) as cut:
        cut.load(tmp_path / "w.safetensors")
        cut.save(tmp_path / "again.safetensors", optimizer=True)
        np.testing.assert_allclose(cut.train(x=ROWS[3])["loss"], wanted["loss"], rtol=1e-6)
    names = ("w.safetensors", "again.safetensors")
    before, after = ((tmp_path / name).read_bytes() for name in names)
    assert before == after


def test_gradients_are_exchanged_over_all_arenas(bundles: dict[str, Path], machine: Any) -> None:
    with wgcc_runtime.load(bundles["cut"], device=machine) as model:
        wanted = model.step(x=ROWS[0])["loss"], model.params()
    with wgcc_runtime.load(bundles["cut"], device=machine) as model:
        assert len(model.plan.entries["step"].exchange.gradients) >= 5
        gradients = model.gradients({"x": ROWS[0]}, "step")
        assert np.count_nonzero(gradients) > 2000
        found = model.apply(gradients)["loss"], model.params()
    assert found[0] == wanted[0]
    for name, value in wanted[1].items():
        np.testing.assert_array_equal(found[1][name], value, err_msg=name)


LONG = """
model Long {
  seed = 3
  param a: f32[64, 163] ~ normal(0.0, 1.0)
  param b: f32[331] ~ normal(0.0, 1.0)
  optimizer opt: sgd { lr = 0.1 }
  entry train(x: f32[64]) -> (loss: f32, norm: f32) {
    loss = mean((x[new] @ a) ** 2) + sum(b ** 2)
    minimize loss with opt
    return loss, opt.grad_norm
  }
}
"""


def test_the_norm_of_a_vector_of_prime_length(
    tmp_path: Path, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,763 numbers side by side cannot be divided: most of them are, and a rest."""
    monkeypatch.setattr(join_arenas, "LONG_VECTOR", 8192)
    path = tmp_path / "model.wg"
    path.write_text(LONG, encoding="utf-8")
    built = compile_file(path)
    built.write(tmp_path / "b")
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    with wgcc_runtime.load(tmp_path / "b", device=machine) as model:
        a, b = (model.params()[name].astype(float) for name in "ab")
        found = model.train(x=x)["norm"]
    gradient = np.outer(x, 2 * (x @ a) / 163)
    wanted = np.sqrt((gradient**2).sum() + (4 * b**2).sum())
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    labels = [d.label for d in built.schedule.entries["train"].dispatches]
    assert any("sum" in label for label in labels)
