"""Initial values, random words and weight files, on which Python and JavaScript must agree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters import ROOT
from wgcc_runtime.drawn import (
    INIT_KINDS,
    drawn_input,
    initial_values,
    natural_log,
    normal_quantile,
    random_words,
    threefry2x32,
)
from wgcc_runtime.errors import WgccError
from wgcc_runtime.strict_json import plan_schema
from wgcc_runtime.weights import load_weights, save_arrays


def draw(kind: str, shape: tuple[int, ...] = (64, 32), seed: int = 7, **args: float) -> Any:
    return initial_values({"kind": kind, "args": args}, shape, seed, "a.w")


def test_threefry_known_answers() -> None:
    """Published test vectors of the generator's authors (first word)."""
    assert int(threefry2x32(0, 0, 0, 0)) == 0x6B200159
    ones = 0xFFFFFFFF
    assert int(threefry2x32(ones, ones, ones, ones)) == 0x1CB996FC
    assert int(threefry2x32(0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3)) == 0xC4923A9C


def test_words_depend_on_seed_name_step_and_position() -> None:
    words = random_words(1, "x", 100)
    assert len(set(words.tolist())) == 100
    np.testing.assert_array_equal(random_words(1, "x", 10), words[:10])
    for other in (random_words(2, "x", 10), random_words(1, "y", 10), random_words(1, "x", 10, 1)):
        assert not np.isin(other, words).any()


def test_recorded_values() -> None:
    """These bits may never change: bundles and the other runtime rely on them."""
    assert draw("normal", (2,)).tobytes().hex() == RECORDED["normal"]
    assert draw("uniform", (2,)).tobytes().hex() == RECORDED["uniform"]
    assert draw("orthogonal", (2, 2)).tobytes().hex() == RECORDED["orthogonal"]


RECORDED = {
    "normal": "4341273c863c9e3f",
    "uniform": "e50a013fca4d643f",
    "orthogonal": "34a9333c0ffc7f3f0ffc7fbf34a9333c",
}


def test_logarithm_and_quantile() -> None:
    p = np.concatenate([np.linspace(1e-9, 1 - 1e-9, 10_001), 2.0 ** -np.arange(1.0, 40.0)])
    np.testing.assert_allclose(natural_log(p), np.log(p), rtol=1e-15, atol=1e-16)
    # The distribution function is the inverse of the quantile.
    erf = np.vectorize(__import__("math").erfc)
    np.testing.assert_allclose(erf(-normal_quantile(p) / np.sqrt(2.0)) / 2, p, rtol=1e-12)


def test_distributions() -> None:
    shape = (200, 100)
    assert not draw("zeros").any() and not draw("external").any()
    assert (draw("ones") == 1).all()
    normal = draw("normal", shape, mean=2.0, std=0.5)
    assert (normal.mean(), normal.std()) == (
        pytest.approx(2, abs=0.02),
        pytest.approx(0.5, rel=0.02),
    )
    cut = draw("trunc_normal", shape, std=0.02)
    assert 0.0399 < np.abs(cut).max() <= 0.04
    uniform = draw("uniform", shape, low=-3.0, high=1.0)
    assert (uniform.min(), uniform.max()) == (
        pytest.approx(-3, abs=0.01),
        pytest.approx(1, abs=0.01),
    )


def test_bounds_of_kaiming_and_xavier() -> None:
    """Initial values of PyTorch's Linear are within 1 / sqrt(fan)."""
    assert np.abs(draw("kaiming_uniform", (64, 999), fan=64)).max() == pytest.approx(
        1 / 8, rel=1e-3
    )
    assert draw("kaiming_uniform", (64, 32)).tobytes() == draw("kaiming_uniform", fan=64).tobytes()
    assert draw("kaiming_normal", (50, 999), fan=50).std() == pytest.approx(0.2, rel=0.02)
    bound = (6 / (64 + 32)) ** 0.5
    assert np.abs(draw("xavier_uniform")).max() == pytest.approx(bound, rel=1e-2)
    # A 3 x 3 convolution of 8 channels has 72 inputs.
    values = draw("kaiming_uniform", (3, 3, 8, 100))
    assert np.abs(values).max() == pytest.approx(72**-0.5, rel=1e-2)


@pytest.mark.parametrize("shape", [(16, 16), (32, 8), (8, 32), (4, 3, 5)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    matrix = draw("orthogonal", shape, gain=2.0).reshape(shape[0], -1).astype(np.float64)
    few = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    np.testing.assert_allclose(few @ few.T, 4 * np.eye(len(few)), atol=1e-6)


def test_given_values_and_integers() -> None:
    one = initial_values({"kind": "value", "values": [2.5]}, (3,), 0, "s")
    assert one.tolist() == [2.5, 2.5, 2.5]
    all_ = initial_values({"kind": "value", "values": [1, 2, 3]}, (3, 1), 0, "s", "i32")
    assert (all_.tolist(), all_.dtype) == ([[1], [2], [3]], np.int32)
    big = initial_values({"kind": "value", "values": [4294967295]}, (), 0, "s", "u32")
    assert int(big) == 4294967295


@pytest.mark.parametrize(
    "init",
    [
        {"kind": "magic"},
        {"kind": "normal", "args": {"sd": 1}},
        {"kind": "value", "values": [1, 2]},
        {"kind": "value"},
        {"kind": "kaiming_uniform", "args": {"fan": 0}},
    ],
)
def test_wrong_initial_values(init: dict[str, Any]) -> None:
    with pytest.raises(WgccError, match=r"`a\.w`"):
        initial_values(init, (3,), 0, "a.w")


def test_schema_knows_all_kinds() -> None:
    tensor = plan_schema()["properties"]["tensors"]["additionalProperties"]
    kinds = tensor["properties"]["init"]["properties"]["kind"]["enum"]
    assert set(kinds) == {*INIT_KINDS, "copy"}


def test_drawn_inputs() -> None:
    integers = drawn_input({"kind": "integers", "low": -1, "high": 4}, "t/i", (500,), 1, 0)
    assert set(integers.tolist()) == {-1, 0, 1, 2, 3, 4}
    floats = drawn_input({"kind": "uniform", "low": 2, "high": 3}, "t/x", (5, 6), 1, 2)
    assert (floats.shape, floats.dtype) == ((5, 6), np.float32)
    assert ((floats >= 2) & (floats <= 3)).all()


def test_initial_values_need_numpy_alone() -> None:
    code = (
        "import sys; sys.modules['wgpu'] = sys.modules['safetensors'] = None; "
        "from wgcc_runtime.drawn import initial_values; import wgcc_runtime.validate; "
        "print(initial_values({'kind': 'ones'}, (2,), 0, 'w').sum())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "runtime_py")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("2.0", "")


# ---- safetensors


def test_all_types_are_read(tmp_path: Path) -> None:
    types = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u4", "u2", "u1", "?")
    arrays = {f"t{i}": np.array([[1, 0]]).astype(kind) for i, kind in enumerate(types)}
    arrays["scalar"] = np.float32(3)
    save_arrays(tmp_path / "w", arrays)
    found, facts = load_weights(tmp_path / "w")
    assert facts == {}
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)


def test_bfloat16_is_widened() -> None:
    assert load_weights(safetensors("BF16", [2], b"\x80\x3f\x00\xc0"))[0]["w"].tolist() == [1, -2]


def safetensors(kind: str, shape: list[int], data: bytes, end: int | None = None) -> bytes:
    spec = {"dtype": kind, "shape": shape, "data_offsets": [0, len(data) if end is None else end]}
    header = json.dumps({"w": spec}).encode()
    return len(header).to_bytes(8, "little") + header + data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x08",
        (1 << 62).to_bytes(8, "little") + b"{}",
        safetensors("F32", [2], b"\0" * 4),
        safetensors("F32", [1], b"\0" * 8),
        safetensors("F32", [1], b"\0" * 4, 400),
        safetensors("F32", [-1], b"\0" * 4),
        safetensors("F99", [1], b"\0" * 4),
        safetensors("F8_E4M3", [4], b"\0" * 4),
        (4).to_bytes(8, "little") + b"null",
    ],
)
def test_malformed_weights(data: bytes) -> None:
    with pytest.raises(WgccError) as caught:
        load_weights(data)
    assert caught.value.code == "weights"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=120), st.integers(0, 200))
def test_no_bytes_break_the_weights_reader(data: bytes, cut: int) -> None:
    whole = safetensors("F32", [2], b"\0" * 8)
    for bad in (data, whole[:cut], whole + data[:1]):
        if bad != whole:
            with pytest.raises(WgccError):
                load_weights(bad)
