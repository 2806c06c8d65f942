"""State-space models: one token at a time with state equals the whole scan; memory stays small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import wgcc_runtime
from adapters import ROOT
from building import build
from wgcc.backends.wasm.twin import kernel_text
from wgcc.compiler import compile_file

CURVES = ROOT / "tests" / "curves"
TOKENS = 64
# How much the same scan may differ when its sums are added in another order.
CLOSE = 1e-5
# The number by which exp rounds.
ROUNDING = "f32.const 12582912"

SCAN = """
dim T = {times}
model Scan {{
  entry slopes(
    u: f32[2, T, 64], dt: f32[2, T, 64], a: f32[64, 16], b: f32[2, T, 16], c: f32[2, T, 16]
  ) -> (
    du: f32[2, T, 64], ddt: f32[2, T, 64], da: f32[64, 16], db: f32[2, T, 16], dc: f32[2, T, 16]
  ) = grad(sum(selective_scan(u, dt, a, b, c) ** 2), (u, dt, a, b, c))
}}
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(CURVES / "mamba.wg", tmp_path_factory.mktemp("mamba") / "bundle")


def test_decoding_with_state_equals_the_whole_scan(bundle: Path, device: Any) -> None:
    record = load_file(CURVES / "mamba.safetensors")
    model = wgcc_runtime.load(bundle, device=device)
    prefix = "end.f32/train/"
    trained = {k.removeprefix(prefix): v for k, v in record.items() if k.startswith(prefix)}
    model.load_params({name: array.astype(np.float32) for name, array in trained.items()})
    ids = np.random.default_rng(3).integers(0, 23, TOKENS).astype(np.int32)
    at_once = model.score(ids=ids[None])["scores"][0]
    one_by_one = np.stack([model.decode(id=token)["scores"] for token in ids])
    error = np.abs(one_by_one - at_once) / (1 + np.abs(at_once))
    assert error.max() <= CLOSE, f"{error.max():.1e}"


@pytest.mark.parametrize("times", [64, 256])
def test_hidden_states_are_never_stored_as_a_whole(times: int, tmp_path: Path) -> None:
    model = tmp_path / "scan.wg"
    model.write_text(SCAN.format(times=times), encoding="utf-8")
    memory = compile_file(model).planned.plan["memory"]
    all_states = 4 * 2 * times * 64 * 16
    assert memory["temps"] < all_states


@pytest.mark.parametrize("times", [64, 61])
def test_the_twin_takes_four_channels_or_states_at_a_time(times: int, tmp_path: Path) -> None:
    """exp makes a power of two by a shift: of a number or, for vectors, of four of them."""
    model = tmp_path / "scan.wg"
    model.write_text(SCAN.format(times=times), encoding="utf-8")
    schedule = compile_file(model).schedule
    assert schedule is not None
    texts = [kernel_text(dispatch) for dispatch in schedule.entries["slopes"].dispatches]
    carrying = [text for text in texts if ROUNDING in text]
    assert len(carrying) == 4
    assert all("i32x4.shl" in text for text in carrying)


def test_the_same_gradients_every_time(tmp_path: Path, device: Any) -> None:
    source = tmp_path / "scan.wg"
    source.write_text(SCAN.format(times=37), encoding="utf-8")
    model = wgcc_runtime.load(build(source, tmp_path / "bundle"), device=device)
    rng = np.random.default_rng(0)
    shapes = {
        "u": (2, 37, 64),
        "dt": (2, 37, 64),
        "a": (64, 16),
        "b": (2, 37, 16),
        "c": (2, 37, 16),
    }
    inputs = {k: rng.uniform(-0.8, 0.4, s).astype(np.float32) for k, s in shapes.items()}
    first = model.slopes(**inputs)
    for _ in range(5):
        again = model.slopes(**inputs)
        assert all(np.array_equal(first[name], again[name]) for name in first)
