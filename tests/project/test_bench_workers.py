"""The benchmark of several workers runs, and extrapolates by its formula."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

from adapters import ROOT


def test_the_benchmark_of_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The program finds its neighbours by changing the path.
    monkeypatch.setattr(sys, "path", [*sys.path])
    program = runpy.run_path(str(ROOT / "tests" / "bench" / "workers.py"))
    file = tmp_path / "found.json"
    few = ["--steps", "1", "--rounds", "1", "--megabytes", "0.1,1", "--json", str(file)]
    assert program["main"](few) == 0
    found = json.loads(file.read_text())
    assert found["models"].keys() == {"c", "cnn"} and found["exchange"].keys() == {"0.1", "1"}
    for runs in found["models"].values():
        assert runs["1"]["rows"] > 0 and runs["2"] > 0 and runs["apart"] > 0
    out = capsys.readouterr().out
    assert f" | {found['models']['cnn']['2']:.2f} × | " in out
    assert out.count("\n| 0.1 MB | ") == out.count("\n| `cnn` | 10 Gbit/s | ") == 1
    page = (ROOT / "runtime_py" / "DISTRIBUTED.md").read_text(encoding="utf-8")
    for part in ("RATIOS", "SHARES", "FORMULA", "EFFICIENCIES"):
        assert program[part] in out and program[part] in page, part
    # A step of 1 s with 125 MB: eight workers send 2 · 7/8 · 1 s on 1 Gbit, and add for 0.25 s.
    made = {"exchange": {"0.1": 1.0, "10": 0.02}}
    one = {"bytes": 125e6, "seconds": 1.0}
    expected = 1 / (1 + 2 * 7 / 8 + 14 * 1e-3 + 0.25)
    assert program["efficiency"](made, one, 8, 1, 1e-3) == pytest.approx(expected)
