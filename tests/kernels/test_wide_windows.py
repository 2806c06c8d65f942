"""Convolutions whose windows have far more elements than are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from adapters import ROOT
from building import build
from wgcc.compiler import compile_file, lower, read_program
from wgcc.errors import WgError
from wgcc.evaluate import evaluate

PITCH = ROOT / "tests" / "filetests" / "programs" / "pitch.wg"
SMALL = {"B": 3, "Wide": 6, "Narrow": 4, "More": 5, "Most": 3, "Pitches": 7, "Next": 8}


@pytest.mark.parametrize("batch", [1, 32, 128])
def test_a_pitch_tracker_of_22_million_parameters(batch: int) -> None:
    """Up to the batch whose first activations fill a buffer: 128 x 256 x 1024 of them."""
    _, program, _ = read_program(PITCH, sizes={"B": batch})
    assert sum(tensor.type.size for tensor in program.params.values()) == 22_239_976
    largest = max(buffer.words for buffer in lower(program).schedule.buffers)
    assert largest <= 2**26


def test_its_numbers(target: str, tmp_path: Path) -> None:
    sound = np.random.default_rng(0).uniform(-1, 1, (3, 1024)).astype(np.float32)
    with wgcc_runtime.load(build(PITCH, tmp_path / "b", **SMALL), device=target) as model:
        found = model.predict(sound=sound)["pitch"]
        held = {**model.params(), **model.state(), "sound": sound}
    _, program, _ = read_program(PITCH, sizes=SMALL)
    expected = evaluate(program.entries["predict"], held).outputs["pitch"]
    np.testing.assert_allclose(found, expected, atol=1e-5)


LONG = """
model Long {
  param w: f32[1, 60000, 1, 2] ~ normal(0.0, 0.01)
  entry run(x: f32[1, 1, 999999, 1]) -> (y: f32[1, 1, 20, 2]) = conv2d(x, w, stride = (1, 47000))
  entry slopes(x: f32[1, 1, 999999, 1]) -> (dw: f32[1, 60000, 1, 2], dx: f32[1, 1, 999999, 1]) {
    return grad(sum(square(conv2d(x, w, stride = (1, 47000)))), (w, x))
  }
}
"""


def test_positions_beyond_32_bits_that_are_never_computed(target: str, tmp_path: Path) -> None:
    """With one image for every position of the kernel there would be 60 billion pixels."""
    path = tmp_path / "long.wg"
    path.write_text(LONG, encoding="utf-8")
    x = np.random.default_rng(0).uniform(-1, 1, 999_999).astype(np.float32)
    with wgcc_runtime.load(build(path, tmp_path / "b"), device=target) as model:
        y = model.run(x=x.reshape(1, 1, -1, 1))["y"]
        slopes = model.slopes(x=x.reshape(1, 1, -1, 1))
        w = model.params()["w"].astype(float)[0, :, 0]
    seen = np.lib.stride_tricks.sliding_window_view(x.astype(float), 60_000)[::47_000]
    expected = seen @ w
    np.testing.assert_allclose(y[0, 0], expected, atol=1e-4)
    np.testing.assert_allclose(slopes["dw"][0, :, 0], seen.T @ (2 * expected), atol=2e-3)
    dx = np.zeros(x.size)
    for window, g in enumerate(2 * expected):
        dx[window * 47_000 : window * 47_000 + 60_000] += w @ g
    np.testing.assert_allclose(slopes["dx"].reshape(-1), dx, atol=1e-4)


FAR = """
model Far {
  param w: f32[1, 3, 1, 1] = 0.5
  entry near(x: f32[1, 1, 10, 1]) -> (y: f32[1, 1, 10, 1]) = conv2d(x, w, pad = (0, 1))
  entry far(x: f32[1, 1, 10, 1]) -> (y: f32[1, 1, 3, 1]) {
    return conv2d(x, w, stride = (1, FAR), pad = (0, FAR))
  }
}
"""


def test_positions_that_no_kernel_can_compute(tmp_path: Path) -> None:
    path = tmp_path / "far.wg"
    path.write_text(FAR.replace("FAR", "4000000000"), encoding="utf-8")
    with pytest.raises(WgError) as raised:
        compile_file(path)
    (problem,) = raised.value.diagnostics
    assert (problem.code, problem.span.line) == ("WG1001", 6)
    assert "go up to 8,000,000,00" in problem.message
    assert "4,294,967,295" in problem.message


def test_positions_that_a_kernel_can_just_compute(device: Any, tmp_path: Path) -> None:
    path = tmp_path / "far.wg"
    path.write_text(FAR.replace("FAR", "2000000000"), encoding="utf-8")
    x = np.arange(1, 11, dtype=np.float32).reshape(1, 1, 10, 1)
    with wgcc_runtime.load(build(path, tmp_path / "b"), device=device) as model:
        assert model.far(x=x)["y"].ravel().tolist() == [0, 3, 0]
