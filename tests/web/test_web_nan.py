"""NaN and infinity in JavaScript: reported within the step, by name, and undone, as in Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapters import ROOT
from poisoned_bundles import poisoned
from web_stacks import add_web_files, build_web, run_job

# How many of the written tensors are corrupted: all, or some if the kernels take long.
EXAMPLES = {"sin": 1000, "names": 4, "cnn": 2, "mamba": 2}
# Small batches: what is reported and undone does not depend on them, the time of kernels does.
BATCHES = {"sin": {}, "names": {"B": 16}, "cnn": {"B": 4}, "mamba": {"B": 2, "T": 16}}


@pytest.mark.parametrize("name", EXAMPLES)
def test_bad_parameters_and_moments(name: str, tmp_path: Path) -> None:
    bundle = build_web(ROOT / "examples" / name / "model.wg", tmp_path / name, **BATCHES[name])
    seen = run_job("node", bundle, "nan", {"most": EXAMPLES[name]})
    assert len(seen) >= min(EXAMPLES[name], 18)
    for one in seen:
        facts = (one["named"], one["same"], one["bad"], one["steps"])
        assert facts == (True, True, 1, 2), one


def test_bad_gradients(tmp_path: Path) -> None:
    bundle = build_web(ROOT / "examples" / "sin" / "model.wg", tmp_path / "sin")
    tensors = json.loads((bundle / "plan.json").read_text())["tensors"]
    params = [name for name, tensor in tensors.items() if tensor["role"] == "param"]
    for number, name in enumerate((params[0], params[-1])):
        damaged = poisoned(bundle, tmp_path / str(number), name, (0x7FC00000, 0xFF800000)[number])
        seen = run_job("node", add_web_files(damaged), "nan", {"gradient": True})
        assert f"it first appears in `d.{name}` (kernel poison, here)" in seen["said"]
        assert "nan: `train` step 1: " in seen["said"]
        assert (seen["same"], seen["steps"]) == (True, 0)
