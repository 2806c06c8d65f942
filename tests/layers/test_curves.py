"""Training runs that PyTorch recorded (tests/curves/record.py): wgcc's are the same.

Figures: losses stay within ten times PyTorch's own gap between float32 and float64, and at least
1e-5, of the float64 run, for 100 steps; so do the parameters after them. Gradients of the first
step agree within 1e-4.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import adapters
import wgcc_runtime
from adapters import ROOT
from building import TWIN, build

FOLDER = ROOT / "tests" / "curves"
MODELS = ("mlp", "tokens", "gpt", "mamba", "mamba2", "cnn", "lstm", "gru")
RUNS = [
    ("mlp", "train_adamw"),
    ("mlp", "train_adam"),
    ("mlp", "train_sgd"),
    ("tokens", "train"),
    ("gpt", "train"),
    ("mamba", "train"),
    ("mamba2", "train"),
    ("cnn", "train_sgd"),
    ("cnn", "train_adamw"),
    ("lstm", "train"),
    ("gru", "train"),
]
GAPS, LEAST, GRADIENT = 10, 1e-5, 1e-4
RUNS_ON = [*adapters.NAMES, TWIN]

Arrays = dict[str, np.ndarray]


class Place:
    """Where bundles are loaded, each once: making pipelines takes longer than training."""

    def __init__(self, device: Any, folder: Path) -> None:
        self._device, self._folder = device, folder
        self._models: dict[str, wgcc_runtime.Model] = {}

    def start(self, name: str) -> wgcc_runtime.Model:
        """The model as PyTorch's run began."""
        if name not in self._models:
            bundle = build(FOLDER / f"{name}.wg", self._folder / name)
            self._models[name] = wgcc_runtime.load(bundle, device=self._device)
        model = self._models[name]
        model.reset()
        model.load_params(part(recorded(name), "start/"))
        return model


@pytest.fixture(scope="module", params=RUNS_ON)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    name = request.param
    device = TWIN if name == TWIN else adapters.request_device(name)
    return Place(device, tmp_path_factory.mktemp("curves"))


def recorded(name: str) -> Arrays:
    return load_file(FOLDER / f"{name}.safetensors")


def part(record: Arrays, prefix: str) -> Arrays:
    return {
        name.removeprefix(prefix): array
        for name, array in record.items()
        if name.startswith(prefix)
    }


def batch(record: Arrays, step: int) -> Arrays:
    return {name: rows[step % len(rows)] for name, rows in part(record, "batch/").items()}


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float((np.abs(ours - theirs) / (1 + np.abs(theirs))).max())


@pytest.mark.parametrize("name", MODELS)
def test_first_gradients(name: str, place: Place) -> None:
    record = recorded(name)
    found = place.start(name).call("gradients", **batch(record, 0))
    for parameter, gradient in part(record, "grad.f64/").items():
        error = difference(found[parameter.replace(".", "_")], gradient)
        assert error <= GRADIENT, f"gradient of {parameter}: {error:.2e}"


@pytest.mark.parametrize(("name", "entry"), RUNS)
def test_hundred_steps(name: str, entry: str, place: Place) -> None:
    record = recorded(name)
    model = place.start(name)
    exact, rounded = record[f"loss.f64/{entry}"], record[f"loss.f32/{entry}"]
    losses = np.array(
        [model.call(entry, **batch(record, step))["loss"] for step in range(len(exact))]
    )
    # The gap grows with the steps; at each, the largest so far counts.
    gap = np.maximum.accumulate(np.abs(rounded - exact) / np.abs(exact))
    error = np.abs(losses - exact) / np.abs(exact)
    allowed = np.maximum(GAPS * gap, LEAST)
    worst = int((error / allowed).argmax())
    assert (error <= allowed).all(), f"step {worst + 1}: {error[worst]:.2e} > {allowed[worst]:.2e}"

    ends = (part(record, f"end.{kind}/{entry}/") for kind in ("f64", "f32"))
    exact_end, rounded_end = ends
    found = model.params()
    for parameter, value in exact_end.items():
        allowed_end = max(GAPS * difference(rounded_end[parameter], value), LEAST)
        error_end = difference(found[parameter], value)
        assert error_end <= allowed_end, f"{parameter}: {error_end:.2e} > {allowed_end:.2e}"


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("mlp", "train_adamw"),
        ("gpt", "train"),
        ("tokens", "train"),
        ("mamba", "train"),
        ("cnn", "train_adamw"),
    ],
)
def test_gradient_norm_before_clipping(name: str, entry: str, place: Place) -> None:
    record = recorded(name)
    model = place.start(name)
    norms = [float(model.call(entry, **batch(record, i))["grad_norm"]) for i in range(20)]
    np.testing.assert_allclose(norms, record[f"norm.f64/{entry}"][:20], rtol=GRADIENT)
