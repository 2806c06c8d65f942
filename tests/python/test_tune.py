"""`wgcc tune`: candidates compute the same, the fastest is recorded, runtimes use it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
import wgcc_runtime.tune
from cli_runs import run
from wgcc.compiler import compile_file
from wgcc_runtime.device import tuned_name
from wgcc_runtime.gpu_machine import GpuMachine

# Odd sizes, not multiples of a tile; all kinds of products, row reductions, both kinds of update.
MODEL = """
dim B = 67
model M {
  seed = 1
  a: Linear[65, 71]
  b: Linear[71, 5]
  optimizer opt: adam { lr = 1e-3 }
  fn forward[N](x: f32[N, 65]) -> f32[N, 5] = x |> a |> tanh |> b
  entry train(x: f32[B, 65], y: i32[B]) -> (loss: f32) {
    loss = cross_entropy(forward(x), y)
    minimize loss with opt
    return loss
  }
  entry predict(x: f32[B, 65]) -> (p: f32[B, 5]) { return softmax(forward(x)) }
}
"""
DEVICE = "SwiftShader"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.wg"
    path.write_text(MODEL)
    return path


@pytest.fixture
def bundle(model: Path, tmp_path: Path) -> Path:
    compile_file(model).write(tmp_path / "bundle")
    return tmp_path / "bundle"


def prefer(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    """Pretends that kernels with this name are fast, and that all others take a second."""
    numbered: dict[int, str] = {}

    def command(self: Any, dispatch: Any) -> Any:
        made = own(self, dispatch)
        numbered[id(made[0])] = self.plan.kernels[dispatch.kernel].name
        return made

    def times(machine: Any, commands: Sequence[Any], repeat: int) -> list[float]:
        return [1.0 if wanted in numbered[id(c[0])] else 1000.0 for c in commands]

    own = GpuMachine.command
    monkeypatch.setattr(GpuMachine, "command", command)
    monkeypatch.setattr(wgcc_runtime.tune, "kernel_times", times)


def plan_of(bundle: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bundle / "plan.json").read_text())
    return found


def test_every_candidate_computes_the_same(model: Path, tmp_path: Path) -> None:
    compile_file(model, candidates=True).write(tmp_path / "bundle")
    names = [name for name in plan_of(tmp_path / "bundle")["profiles"] if "candidate" in name]
    assert len(names) >= 4
    for name in names:
        with wgcc_runtime.load(tmp_path / "bundle", device=DEVICE, profile=name) as loaded:
            results = wgcc_runtime.run_selftest(loaded)
            assert results and all(result.passed for result in results), name


def test_the_fastest_is_recorded_and_used(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = plan_of(bundle)
    x = np.linspace(-1, 1, 67 * 65, dtype=np.float32).reshape(67, 65)
    with wgcc_runtime.load(bundle, device=DEVICE) as loaded:
        expected, name = loaded.predict(x=x)["p"], tuned_name(loaded.device_name)
    with monkeypatch.context() as patch:
        prefer(patch, "candidate_1")
        code, out, err = run(capsys, "tune", str(bundle), "--device", DEVICE, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["profile"], found["complete"]) == (name, True)
    assert found["after_ms"] < found["before_ms"]
    plan = plan_of(bundle)
    # Existing kernels are unchanged; the new ones come after them.
    assert plan["entries"] == before["entries"]
    assert plan["kernels"][: len(before["kernels"])] == before["kernels"]
    added = {kernel["name"] for kernel in plan["kernels"][len(before["kernels"]) :]}
    assert added and all(kernel.endswith("candidate_1") for kernel in added)
    assert (bundle / "index.js").read_text().count(name) == 1
    with wgcc_runtime.load(bundle, device=DEVICE) as loaded:
        assert loaded.profile_name == name
        used = {loaded.plan.kernels[d.kernel].name for d in loaded.plan.dispatches("train", name)}
        assert added & used
        np.testing.assert_allclose(loaded.predict(x=x)["p"], expected, rtol=1e-5, atol=1e-6)
    with wgcc_runtime.load(bundle, device="llvmpipe") as loaded:
        assert loaded.profile_name == "gpu", "another adapter, other kernels"


def test_tuning_again_replaces_the_last_result(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name for path in (bundle / "kernels").iterdir()}
    for wanted in ("candidate_2", "nothing"):
        with monkeypatch.context() as patch:
            prefer(patch, wanted)
            assert run(capsys, "tune", str(bundle), "--device", DEVICE)[0] == 0
        added = {path.name for path in (bundle / "kernels").iterdir()} - before
        assert all(wanted in name for name in added)
        assert bool(added) == (wanted != "nothing")


def test_a_bundle_with_candidates_is_tuned_without_its_source(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = tmp_path / "bundle"
    assert run(capsys, "build", str(model), "-o", str(bundle), "--candidates")[0] == 0
    (bundle / "model.wg").unlink()
    code, out, err = run(capsys, "tune", str(bundle), "--device", DEVICE, "--seconds", "1")
    assert code == 0, err
    assert "kernels changed" in out


def test_another_model_is_refused(
    bundle: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = (bundle / "plan.json").read_bytes()
    code, _, err = run(capsys, "tune", str(bundle), "--set", "B=68")
    assert code == 1 and "repeat the options" in err
    (bundle / "model.wg").unlink()
    code, _, err = run(capsys, "tune", str(bundle))
    assert code == 1 and "--source" in err
    assert (bundle / "plan.json").read_bytes() == plan
