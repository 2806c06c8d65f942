"""Batch norm's running statistics, and predictions made with them, agree with PyTorch's.

The runs are those of tests/curves/record_cnn.py; test_curves.py compares losses and gradients.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import wgcc_runtime
from adapters import ROOT
from building import build

FOLDER = ROOT / "tests" / "curves"
STEPS = 100
# Ten times PyTorch's own gap between float32 and float64, and at least 1e-5.
GAPS, LEAST = 10, 1e-5


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(FOLDER / "cnn.wg", tmp_path_factory.mktemp("cnn"))


def test_running_statistics(bundle: Path, device: Any) -> None:
    record = load_file(FOLDER / "cnn.safetensors")
    x, labels = record["batch/x"], record["batch/labels"]
    model = wgcc_runtime.load(bundle, device=device)
    starts = {name: array for name, array in record.items() if name.startswith("start/")}
    model.load_params({name.removeprefix("start/"): array for name, array in starts.items()})
    for step in range(STEPS):
        model.call("train_sgd", x=x[step % len(x)], labels=labels[step % len(x)])
    state = model.state()
    agree(state["norm.run_mean"], record, "run_mean")
    agree(state["norm.run_var"], record, "run_var")
    agree(model.call("eval", x=x[0])["logits"], record, "scores")


def agree(found: np.ndarray, record: dict[str, np.ndarray], name: str) -> None:
    exact, rounded = record[f"{name}.f64"], record[f"{name}.f32"]
    allowed = max(GAPS * difference(rounded, exact), LEAST)
    assert difference(found, exact) <= allowed, name


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float((np.abs(ours - theirs) / (1 + np.abs(theirs))).max())
