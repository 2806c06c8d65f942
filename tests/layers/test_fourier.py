"""Fourier transforms against numpy's, from short to long, along any axis, and their gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from expressions import value_of


@pytest.mark.parametrize("n", [1, 2, 4, 64, 128, 4096])
def test_real_transforms_and_back(n: int) -> None:
    x = np.random.default_rng(n).normal(size=(2, n))
    half, dims = n // 2 + 1, f"dim N = {n}\n"
    text = "concat([rfft(x)[0], rfft(x)[1]], axis = 0)"
    found = value_of(text, f"f32[4, {half}]", dims, x=("f32[2, N]", x))
    wanted = np.fft.rfft(x)
    np.testing.assert_allclose(found, np.concatenate([wanted.real, wanted.imag]), atol=1e-9 * n)
    again = value_of("irfft(rfft(x)[0], rfft(x)[1])", "f32[2, N]", dims, x=("f32[2, N]", x))
    np.testing.assert_allclose(again, x, atol=1e-9)


LONG = """
dim N = 2048, M = 256
model Spectrum {
  entry both(re: f32[2, N], im: f32[2, N]) -> (re: f32[2, N], im: f32[2, N]) = fft(re, im)
  entry columns(x: f32[M, 3]) -> (re: f32[129, 3], im: f32[129, 3]) = rfft(x, axis = 0)
  entry slope(x: f32[M], w: f32[M]) -> (d: f32[M]) {
    re, im = fft(x)
    return grad(sum(w * (re * re + im)), x)
  }
}
"""


def test_kernels_of_long_transforms(machine: Any, tmp_path: Path) -> None:
    source = tmp_path / "model.wg"
    source.write_text(LONG, encoding="utf-8")
    model = wgcc_runtime.load(build(source, tmp_path / "bundle"), device=machine)
    rng = np.random.default_rng(3)
    re, im, columns, x, w = (
        rng.normal(size=size).astype(np.float32)
        for size in ((2, 2048), (2, 2048), (256, 3), 256, 256)
    )
    found, wanted = model.both(re=re, im=im), np.fft.fft(re + 1j * im)
    np.testing.assert_allclose(found["re"] + 1j * found["im"], wanted, atol=2e-4)
    found, wanted = model.columns(x=columns), np.fft.rfft(columns, axis=0)
    np.testing.assert_allclose(found["re"] + 1j * found["im"], wanted, atol=5e-5)
    y = np.fft.fft(x)
    adjoint = np.fft.fft(2 * w * y.real - 1j * w)  # of cos and -sin
    np.testing.assert_allclose(model.slope(x=x, w=w)["d"], adjoint.real, rtol=1e-3, atol=2e-2)
