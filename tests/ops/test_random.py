"""Random numbers: correct distributions, no repetition, the same bits in numpy and on every GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from judging import (
    KOLMOGOROV,
    SIGMAS,
    Array,
    chi_square,
    correlation,
    kolmogorov,
    normal_distribution,
)
from wgcc.ops.random import normal_array, threefry, uniform_array

COUNT = 1 << 16

MODEL = """
dim N = 2048
model Noise {
  seed = 11
  param w: f32[N] = 1.0
  optimizer opt: sgd { lr = 1.0 }

  entry draw() -> (a: f32[N], b: f32[N], z: f32[N]) {
    return rand(f32[N]), rand(f32[N]), randn(f32[N])
  }

  entry train(p: f32) -> (kept: f32[N], slope: f32[N]) {
    kept = dropout(w, p)
    slope = grad(sum(kept), w)
    minimize 0.0 * sum(kept) with opt
    return kept, slope
  }

  entry predict() -> (y: f32[N]) = dropout(w, 0.5)
}
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("noise")
    (folder / "noise.wg").write_text(MODEL, encoding="utf-8")
    return build(folder / "noise.wg", folder / "bundle")


def uniforms(seed: int = 1, site: int = 1, step: int = 0) -> Array:
    return uniform_array(seed, site, step, COUNT)


class TestUniform:
    def test_moments(self) -> None:
        x = uniforms().astype(np.float64)
        assert abs(x.mean() - 0.5) * (12 * COUNT) ** 0.5 < SIGMAS
        assert abs(x.var() - 1 / 12) * (180 * COUNT) ** 0.5 < SIGMAS
        assert x.min() >= 0 and x.max() < 1

    def test_distribution(self) -> None:
        x = np.sort(uniforms())
        assert kolmogorov(x, x) < KOLMOGOROV
        counts = np.histogram(x, 256, (0, 1))[0]
        assert chi_square(counts, np.full(256, COUNT / 256)) < SIGMAS

    def test_every_bit_is_set_half_of_the_time(self) -> None:
        words = threefry(3, 5, 7, np.arange(COUNT))
        for bit in range(32):
            ones = int(((words >> np.uint64(bit)) & np.uint64(1)).sum())
            assert abs(ones - COUNT / 2) / (COUNT / 4) ** 0.5 < SIGMAS, f"bit {bit}"

    def test_neighbours_are_independent(self) -> None:
        x = uniforms()
        for lag in (1, 2, 3, 32, 64, 256, 1024):
            assert correlation(x[:-lag], x[lag:]) < SIGMAS, f"lag {lag}"
        pairs = np.histogram2d(x[::2], x[1::2], 32, ((0, 1), (0, 1)))[0].ravel()
        assert chi_square(pairs, np.full(1024, COUNT / 2 / 1024)) < SIGMAS

    @pytest.mark.parametrize("change", ["seed", "site", "step"])
    def test_nothing_repeats(self, change: str) -> None:
        """Neighbouring seeds, call sites and steps give independent numbers."""
        draws = [uniforms(**{change: at}) for at in range(6)]
        for i, one in enumerate(draws):
            for other in draws[i + 1 :]:
                assert correlation(one, other) < SIGMAS
                # Two draws of 24 bits are equal once in 16 million.
                assert (one == other).sum() <= 2


class TestNormal:
    def test_moments(self) -> None:
        z = normal_array(1, 2, 3, COUNT).astype(np.float64)
        assert abs(z.mean()) * COUNT**0.5 < SIGMAS
        assert abs(z.var() - 1) * (COUNT / 2) ** 0.5 < SIGMAS
        assert abs((z**3).mean()) * (COUNT / 15) ** 0.5 < SIGMAS
        assert abs((z**4).mean() - 3) * (COUNT / 96) ** 0.5 < SIGMAS

    def test_distribution(self) -> None:
        z = np.sort(normal_array(1, 2, 4, 1 << 14)).astype(np.float64)
        assert kolmogorov(z, normal_distribution(z)) < KOLMOGOROV
        assert np.isfinite(z).all()

    def test_the_farthest_are_finite(self) -> None:
        """All words in steps of 511, and both ends: there is no logarithm of 0."""
        from wgcc.ops.random import erfinv_array

        bits = np.append(np.arange(0, 1 << 23, 511), (1 << 23) - 1)
        z = 2**0.5 * erfinv_array((bits + 0.5) * 2.0**-22 - 1)
        assert np.isfinite(z).all() and (np.diff(z) > 0).all()
        assert z[-1] == pytest.approx(5.29, abs=0.03) and z[0] == -z[-1]


class TestOnGpus:
    def test_the_same_bits_as_numpy(self, bundle: Path, device: Any) -> None:
        model = wgcc_runtime.load(bundle, device=device)
        for step in range(3):
            found = model.draw()
            for site, name in ((1, "a"), (2, "b")):
                assert np.array_equal(found[name], uniform_array(11, site, step, 2048))
            # The logarithm differs between adapters in its last bits.
            np.testing.assert_allclose(
                found["z"], normal_array(11, 3, step, 2048), rtol=2e-5, atol=1e-6
            )

    def test_a_seed_changes_everything(self, bundle: Path, device: Any) -> None:
        draws = [wgcc_runtime.load(bundle, device=device, seed=s).draw() for s in (1, 1, 2)]
        assert np.array_equal(draws[0]["a"], draws[1]["a"])
        assert correlation(draws[0]["a"], draws[2]["a"]) < SIGMAS

    def test_dropout(self, bundle: Path, device: Any) -> None:
        model = wgcc_runtime.load(bundle, device=device)
        masks = []
        for rate in (0.1, 0.5, 0.9) * 3:
            found = model.train(p=rate)
            kept = found["kept"] != 0
            masks.append(kept)
            # Kept elements are scaled up, and the gradient passes where the value does.
            np.testing.assert_allclose(found["kept"][kept], 1 / (1 - rate), rtol=1e-6)
            assert np.array_equal(found["slope"], found["kept"])
            spread = (2048 * rate * (1 - rate)) ** 0.5
            assert abs(kept.sum() - 2048 * (1 - rate)) / spread < SIGMAS
        same_rate = masks[1::3]
        for i, one in enumerate(same_rate):
            assert all(correlation(one, other) < SIGMAS for other in same_rate[i + 1 :])
        assert np.array_equal(model.predict()["y"], np.ones(2048))

    def test_a_checkpoint_keeps_the_place_in_the_stream(
        self, bundle: Path, lavapipe: Any, tmp_path: Path
    ) -> None:
        model = wgcc_runtime.load(bundle, device=lavapipe)
        model.train(p=0.5)
        model.save(tmp_path / "ck.safetensors", optimizer=True)
        expected = model.train(p=0.5)["kept"]
        other = wgcc_runtime.load(bundle, device=lavapipe, seed=99)
        other.load(tmp_path / "ck.safetensors")
        assert np.array_equal(other.train(p=0.5)["kept"], expected)
