"""The benchmark runs, here without the other libraries, which are not a dependency."""

from __future__ import annotations

import json
import math
import runpy

import pytest

from adapters import ROOT
from wgcc.compiler import compile_file


def test_one_model_of_the_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    harness = runpy.run_path(str(ROOT / "tests" / "bench" / "run.py"))
    few = ("--rounds", "1", "--steps", "2", "--web", "--kernels", "--json")
    assert harness["main"](["--models", "a", "--libraries", "wgcc", *few]) == 0
    found = json.loads(capsys.readouterr().out)["models"]["a"]
    seen = found["wgcc"]
    assert len(seen["ms"]) == 2 and min(seen["ms"]) > 0
    plan = compile_file(ROOT / "tests" / "bench" / "models" / "a.wg").planned.plan
    # Those of the step, and one that tests for NaN.
    assert seen["counts"]["step"] == len(plan["entries"]["train"]["dispatches"]) + 1
    # Besides the planned memory: copies to undo a step, and buffers for transfers.
    planned = plan["memory"]["peak"]
    assert planned < seen["counts"]["peak"] < 2 * planned
    assert seen["losses"][-1] < seen["losses"][0]
    assert 5_000 < seen["code"] < 60_000
    assert [row["flops"] for row in seen["kernels"]["rows"]].count(2 * 256 * 64 * 64) == 3
    text = runpy.run_path(str(ROOT / "tests" / "bench" / "report.py"))["report"]({"a": found})
    assert f"{seen['losses'][0]:.5f}" in text and "GFLOP/s" in text
    assert math.isfinite(seen["firstCpu"])
