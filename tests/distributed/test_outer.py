"""The outer step of workers that exchange rarely: its formula, and its momentum in checkpoints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import line_twin
import wgcc_runtime
from line_training import data, refused
from wgcc_runtime import WgccWarning
from wgcc_runtime.distributed.agreement import Outcome, Wants
from wgcc_runtime.distributed.outer import Outer, OuterSettings
from wgcc_runtime.distributed.rounds import ahead, allowed_seconds
from wgcc_runtime.distributed.worker import Worker
from wgcc_runtime.replace_file import previous

F32 = np.float32


def test_the_step_is_sgd_with_nesterov_momentum() -> None:
    """As torch.optim.SGD(lr=0.7, momentum=0.9, nesterov=True) with the change as its gradient."""
    outer = Outer(OuterSettings(0.7, 0.9), np.array([True, True, False]))
    weights, velocity = np.array([1.0, -2.0, 5.0]), np.zeros(3)
    for average in ([0.5, -1.0, 4.0], [0.25, -1.5, 3.0]):
        found = outer.step(weights.astype(F32), np.array(average, F32))
        gradient = weights - average
        velocity = 0.9 * velocity + gradient
        weights = weights - 0.7 * (gradient + 0.9 * velocity)
        weights[2] = average[2]  # no parameter, such as a moment: the average itself
        np.testing.assert_allclose(found, weights, rtol=1e-6)
    np.testing.assert_allclose(outer.velocity[:2], velocity[:2], rtol=1e-6)


def test_its_momentum_is_in_the_checkpoint(tmp_path: Path) -> None:
    bundle, path = line_twin.write_bundle(tmp_path / "bundle"), tmp_path / "ck.safetensors"
    with wgcc_runtime.load(bundle, device="wasm", threads=1) as model:
        worker = Worker(model, "train", data(), 0)
        outer = Outer(OuterSettings(1.0, 0.9), worker.parameters())
        for steps in (1, 2):
            model.fit(data(), steps=1, every=1)
            outer.velocity = np.full(outer.velocity.size, steps, F32)
            worker.save(path, True, outer.saved_velocity)
        assert (model.load(path).velocity == 2).all()
        # The previous file has the momentum of its own step.
        assert (model.load(previous(path)).velocity == 1).all()
        path.write_bytes(path.read_bytes()[:-3])
        with pytest.warns(WgccWarning, match="is damaged|is not a safetensors"):
            found = model.load(path, or_previous=True)
        assert model.steps_done == 1 and (found.velocity == 1).all()
        worker.save(path, False, Outer(OuterSettings(), worker.parameters()).saved_velocity)
        assert model.load(path).velocity is None
        with refused("weights", f"momentum has 1 numbers; the model has {outer.velocity.size}"):
            outer.resume(np.zeros(1, F32))
    with wgcc_runtime.load(bundle, device="wasm", weights=previous(path)) as model:
        assert model.params().keys() == {"w"}


def test_how_long_a_round_takes_and_who_is_ahead() -> None:
    assert allowed_seconds(10.0, 0.5) == 15.0
    # Short rounds are not cut by chance.
    assert allowed_seconds(0.01, 0.5) == pytest.approx(1.01)
    assert allowed_seconds(10.0, float("inf")) == float("inf")
    steps = [[4, 4], [3, 4, 4], [4, 2]]
    made = [[Outcome(0, "", Wants(), 8, steps=n) for n in some] for some in steps]
    assert [ahead(outcomes) for outcomes in made] == [None, 1, 0]
