"""Sums over windows of images in the WebAssembly twin, in every order of threads it may choose."""

from __future__ import annotations

import re
from math import inf
from typing import Any

import numpy as np
import pytest

from wasm_kernels import Built, work_of
from wgcc.backends.wasm import write_kernel
from wgcc.backends.wasm.kernels.body import KernelBody
from wgcc.backends.wasm.write_kernel import Walk
from wgcc.kernel.build import statements
from wgcc.schedule.kernel import ThreadTask

Array = np.ndarray[Any, Any]
INSIDE = "{row} + {i} - PADY < H && {column} + {j} - PADX < W"
# One thread per pixel and channel: the sum over the taps of its window.
IMAGE = """
  var total: f32 = 0.0f;
  for (var r = 0u; r < TAPS; r++) {
    let inside = INSIDE;
    let row = o / (H * W * C) * H + ROW + I - PADY;
    let at = select(0u, (row * W + COLUMN + J - PADX) * C + o % C, inside);
    let piece = select(0.0f, max(x[at] + b[o % C], 0.0f), inside);
    total = (total + piece * w[r * C + o % C]);
  }
  y[o] = total;
"""
# One thread per tap and channel: the sum over all pixels.
KERNEL = """
  var total: f32 = 0.0f;
  for (var r = 0u; r < N * H * W; r++) {
    let inside = INSIDE;
    let up = select(0u, ROW + I - PADY, inside);
    let left = select(0u, COLUMN + J - PADX, inside);
    let piece = select(0.0f, x[((r / (H * W) * H + up) * W + left) * C + o % C], inside);
    total = (total + piece * g[r * C + o % C]);
  }
  w[o] = total;
"""


def filled(text: str, pixel: str, tap: str, sizes: dict[str, int]) -> str:
    """Positions are divisions by numbers, as in kernels of convolutions."""
    places = {
        "ROW": f"(({pixel} / W) % H)",
        "COLUMN": f"({pixel} % W)",
        "I": f"({tap} / KX)",
        "J": f"({tap} % KX)",
    }
    words = {"INSIDE": INSIDE.format(row="ROW", column="COLUMN", i="I", j="J")}
    for holes in (words, places):
        for name, value in holes.items():
            text = _replace(text, name, value)
    for name, number in sizes.items():
        text = _replace(text, name, f"{number}u")
    return text


def _replace(text: str, word: str, value: str) -> str:
    return re.sub(rf"\b{word}\b", value, text)


def arrays_of(sizes: dict[str, int]) -> dict[str, Array]:
    random = np.random.default_rng(sum(sizes.values()))
    image = tuple(sizes[name] for name in "NHWC")
    taps, channels = sizes["TAPS"], sizes["C"]
    shapes = {"x": image, "g": image, "y": image, "w": (taps, channels), "b": (channels,)}
    return {name: random.normal(size=at).astype(np.float32) for name, at in shapes.items()}


def kernel(of: str, sizes: dict[str, int]) -> Built:
    arrays = arrays_of(sizes)
    if of == "image":
        text, written = filled(IMAGE, "(o / C)", "r", sizes), "y"
    else:
        text, written = filled(KERNEL, "r", "(o / C)", sizes), "w"
    task = ThreadTask("o", arrays[written].size, statements(text))
    return Built(work_of(task, "", {}, arrays, (written,)), arrays, threads=3)


def expected(of: str, sizes: dict[str, int], arrays: dict[str, Array]) -> Array:
    height, width, up, left = (sizes[name] for name in ("H", "W", "PADY", "PADX"))
    x = arrays["x"].astype(float)
    x = np.maximum(x + arrays["b"], 0) if of == "image" else x
    rows, columns = sizes["TAPS"] // sizes["KX"], sizes["KX"]
    padded = np.pad(x, ((0, 0), (up, rows), (left, columns), (0, 0)))
    shifted = [
        padded[:, i : i + height, j : j + width] for i in range(rows) for j in range(columns)
    ]
    if of == "image":
        return sum(s * w for s, w in zip(shifted, arrays["w"], strict=True))
    return np.stack([(s * arrays["g"]).sum((0, 1, 2)) for s in shifted])


def allow(monkeypatch: pytest.MonkeyPatch, chosen: Walk) -> None:
    """Only this order of threads has a finite cost."""
    attempt = write_kernel._attempt

    def only(*arguments: Any) -> KernelBody:
        *rest, walk, _ = arguments
        body = attempt(*rest, walk, inf)
        body.scopes.cost = body.scopes.cost if walk == chosen else inf
        return body

    monkeypatch.setattr(write_kernel, "_attempt", only)


def walks_of(monkeypatch: pytest.MonkeyPatch, of: str, sizes: dict[str, int]) -> dict[Walk, float]:
    """The orders of threads that are tried, and their costs."""
    attempt, costs = write_kernel._attempt, dict[Walk, float]()

    def record(*arguments: Any) -> KernelBody:
        *rest, walk, _ = arguments
        body = attempt(*rest, walk, inf)
        costs[walk] = body.scopes.cost
        return body

    with monkeypatch.context() as patched:
        patched.setattr(write_kernel, "_attempt", record)
        kernel(of, sizes)
    return costs


def sizes_of(seed: int) -> dict[str, int]:
    random = np.random.default_rng(seed)
    rows, columns = random.integers(1, 4, 2)
    return {
        "N": int(random.integers(1, 3)),
        "H": int(random.integers(2, 7)),
        "W": int(random.integers(2, 7)),
        "C": int(random.choice([4, 8, 12, 10])),
        "PADY": int(random.integers(0, rows)),
        "PADX": int(random.integers(0, columns)),
        "KX": int(columns),
        "TAPS": int(rows * columns),
    }


@pytest.mark.parametrize("of", ["image", "kernel"])
@pytest.mark.parametrize("seed", range(3))
def test_every_order_of_threads_computes_the_same(
    of: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = sizes_of(seed)
    for walk, cost in walks_of(monkeypatch, of, sizes).items():
        if cost == inf:
            continue
        with monkeypatch.context() as patched:
            allow(patched, walk)
            built = kernel(of, sizes)
        name = "y" if of == "image" else "w"
        result = built.run()[name]
        want = expected(of, sizes, dict(built.arrays))
        np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4, err_msg=f"{sizes} {walk}")
        assert result.tobytes() == built.run(3)[name].tobytes(), (sizes, walk)


def test_taps_are_unrolled() -> None:
    sizes = {"N": 2, "H": 8, "W": 8, "C": 64, "PADY": 1, "PADX": 1, "KX": 3, "TAPS": 9}
    assert "r" not in kernel("image", sizes).locals


def test_taps_share_the_loop_over_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"N": 2, "H": 8, "W": 8, "C": 64, "PADY": 1, "PADX": 1, "KX": 3, "TAPS": 9}
    costs = walks_of(monkeypatch, "kernel", sizes)
    assert min(costs, key=lambda walk: costs[walk]) == Walk(64, 9)
