"""The benchmark runs, here without the other libraries, which are not a dependency."""

from __future__ import annotations

import json
import math
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from adapters import ROOT
from wgcc.compiler import compile_file

BENCH = ROOT / "tests" / "bench"


@pytest.fixture(scope="module")
def harness() -> Any:
    """run.py finds its neighbours by changing the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        yield runpy.run_path(str(BENCH / "run.py"))


def test_one_model_of_the_benchmark(
    harness: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ("--rounds", "1", "--steps", "2", "--opens", "1", "--builds", "1", "--kernels")
    file = tmp_path / "found.json"
    assert (
        harness["main"](["--models", "a", "--setups", "*-wgcc-*", *few, "--json", str(file)]) == 0
    )
    found = json.loads(file.read_text())
    seen = found["models"]["a"]
    assert sorted(seen) == [
        "chromium-wgcc-wasm", "chromium-wgcc-webgpu", "node-wgcc-wasm", "node-wgcc-wasm-2",
        "python-wgcc-llvmpipe", "python-wgcc-wasm",
    ]  # fmt: skip
    for name, setup in seen.items():
        assert len(setup["ms"]) == 2 and min(setup["ms"]) > 0 and setup["cpu"] >= 0, name
        assert setup["losses"] == pytest.approx(seen["python-wgcc-wasm"]["losses"], rel=1e-5)
        assert setup["losses"][-1] < setup["losses"][0]
    twins = [setup["losses"] for name, setup in seen.items() if "wasm" in name]
    assert all(losses == twins[0] for losses in twins)
    check_page(seen["chromium-wgcc-webgpu"])
    assert seen["chromium-wgcc-wasm"]["counts"]["step"] == 0  # it dispatches nothing
    assert 1_000 < found["builds"]["a"]["gzip"] < found["builds"]["a"]["bytes"]
    text = capsys.readouterr().out
    assert f"{seen['chromium-wgcc-wasm']['losses'][0]:.5f}" in text and "GFLOP/s" in text


def check_page(seen: dict[str, Any]) -> None:
    plan = compile_file(BENCH / "models" / "a.wg").planned.plan
    # Those of the step, and one that tests for NaN.
    assert seen["counts"]["step"] == len(plan["entries"]["train"]["dispatches"]) + 1
    # Besides the planned memory: copies to undo a step, and buffers for transfers.
    planned = plan["memory"]["peak"]
    assert planned < seen["counts"]["peak"] < 2 * planned
    assert 5_000 < seen["code"] < 60_000
    assert [row["flops"] for row in seen["kernels"]["rows"]].count(2 * 256 * 64 * 64) == 3
    assert math.isfinite(seen["firstCpu"]) and seen["firstSteps"][0] > 0


def test_a_setup_that_fails_is_reported(harness: Any, tmp_path: Path) -> None:
    """Its process ends, and the others go on."""
    setup = harness["Setup"]("python", "wgcc", "wasm")
    (tmp_path / "batches").mkdir()
    running = harness["start"](setup, tmp_path, "nothing", "train")
    assert running.seen["failed"] == "its process ended"
    running.close()
    text = harness["report"]({"models": {"a": {setup.name: running.seen}}, "builds": {}})
    assert "| a | python-wgcc-wasm | failed |" in text


def test_pytorch_that_cannot_be_installed_is_left_out(
    harness: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import peers

    monkeypatch.setattr(peers, "CACHE", tmp_path)
    monkeypatch.setattr(peers, "TORCH", "torch==0.0.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert (
        harness["start"](harness["Setup"]("python", "torch", "cpu"), tmp_path, "a", "train") is None
    )
    assert "PyTorch is left out, it could not be installed: " in capsys.readouterr().err


def test_times_are_compared_with_wgcc_on_the_same_engine(harness: Any) -> None:
    def seen(*ms: float) -> dict[str, Any]:
        return {"ms": [*ms], "steps": len(ms), "cpu": sum(ms), "losses": [1.0]}

    setups = {
        "node-wgcc-wasm": seen(2.0, 9.0, 2.0),
        "node-wgcc-wasm-2": seen(1.0),
        "node-jax-wasm": seen(5.0, 5.0),
        "python-wgcc-wasm": seen(4.0),
        "python-torch-cpu": seen(3.0),
    }
    builds = {"a": {"twin": 1.5, "none": 1.2, "bytes": 9000, "gzip": 4000}}
    text = harness["report"]({"models": {"a": setups}, "builds": builds})
    steps = "2 ms | 1 ms (0.50 ×) | 5 ms (2.50 ×) | 4 ms | 3 ms (0.75 ×) |"
    assert f"| MLP 1-64-64-1, batch 256 |  |  |  | {steps}" in text
    assert "| 1.50 s | 1.20 s | 1.25 | 9.0 KB | 4.0 KB |" in text
