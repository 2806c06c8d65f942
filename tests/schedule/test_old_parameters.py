"""Entries that compute with a parameter as it was before its update and as it is after it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wgcc_runtime
from building import build
from wgcc.compiler import compile_file

# The gradient of the first loss does not depend on w, that of the second does.
LOSSES = {"linear": "sum(w * x)", "square": "0.5 * sum((w - x) ** 2)"}
MODEL = """
model M {{
  param w: f32[64] ~ normal(0.0, 1.0)
  optimizer opt: sgd {{ lr = 0.5 }}
  entry train(x: f32[64]) -> (loss: f32, step: f32[64]) {{
    before = w
    loss = {loss}
    minimize loss with opt
    return loss, w - before
  }}
}}
"""


@pytest.fixture(params=LOSSES)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    path = tmp_path / "model.wg"
    path.write_text(MODEL.format(loss=LOSSES[request.param]), encoding="utf-8")
    return request.param, path


def test_the_difference_of_old_and_new(
    model: tuple[str, Path], tmp_path: Path, target: str
) -> None:
    loss, path = model
    x = np.random.default_rng(0).uniform(-1, 1, 64).astype(np.float32)
    with wgcc_runtime.load(build(path, tmp_path / "b"), device=target) as loaded:
        old = loaded.params()["w"]
        found = loaded.train(x=x)
        new = loaded.params()["w"]
    np.testing.assert_allclose(new, old - 0.5 * (x if loss == "linear" else old - x), atol=1e-6)
    np.testing.assert_allclose(found["step"], new - old, atol=1e-6)


def test_the_old_content_is_copied_once(model: tuple[str, Path]) -> None:
    dispatches = compile_file(model[1]).schedule.entries["train"].dispatches
    made = [name for dispatch in dispatches for made in dispatch.made for name in made.names]
    assert [name for name in made if name.startswith("w.old")] == ["w.old"]
    assert len(dispatches) <= 5
