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
from wgcc.backends.wasm.panels import micro_kernel
from wgcc.backends.wasm.panels.by_threads import Walk
from wgcc.kernel.build import statements
from wgcc.schedule.kernel import ProductTask, ThreadTask

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
# One thread per tap, channel and part of the pixels: parts are summed later, channels are not last.
PARTS = """
  var total: f32 = 0.0f;
  for (var r = 0u; r < PIXELS; r++) {
    let p = (o % PARTS) * PIXELS + r;
    let inside = INSIDE;
    let up = select(0u, ROW + I - PADY, inside);
    let left = select(0u, COLUMN + J - PADX, inside);
    let image = x[((p / (H * W) * H + up) * W + left) * C + o / PARTS % C];
    let piece = select(0.0f, image, inside);
    total = (total + piece * g[p * C + o / PARTS % C]);
  }
  w[o] = total;
"""

# A convolution as a product: rows are pixels, the inner axis is taps and channels.
LEFT = """
fn left(z: u32, m: u32, k: u32) -> f32 {
  let inside = INSIDE;
  let row = m / (H * W) * H + ROW + I - PADY;
  let at = select(0u, (row * W + COLUMN + J - PADX) * C + k % C, inside);
  return select(0.0f, x[at], inside);
}
fn right(z: u32, k: u32, n: u32) -> f32 { return w[k * O + n]; }
fn finish(z: u32, m: u32, n: u32, product: f32) { y[m * O + n] = product; }
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
    if "PARTS" in sizes:
        shapes["w"] = (taps, channels, sizes["PARTS"])
    return {name: random.normal(size=at).astype(np.float32) for name, at in shapes.items()}


def kernel(of: str, sizes: dict[str, int]) -> Built:
    arrays = arrays_of(sizes)
    if of == "image":
        text, written = filled(IMAGE, "(o / C)", "r", sizes), "y"
    elif of == "parts":
        text, written = filled(PARTS, "p", "(o / (PARTS * C))", sizes), "w"
    else:
        text, written = filled(KERNEL, "r", "(o / C)", sizes), "w"
    task = ThreadTask("o", arrays[written].size, statements(text))
    return Built(work_of(task, "", {}, arrays, (written,)), arrays, threads=3)


def expected(of: str, sizes: dict[str, int], arrays: dict[str, Array]) -> Array:
    x = arrays["x"].astype(float)
    x = np.maximum(x + arrays["b"], 0) if of == "image" else x
    shifted = shifts(sizes, x)
    if of == "image":
        return sum(s * w for s, w in zip(shifted, arrays["w"], strict=True))
    products = np.stack([s * arrays["g"] for s in shifted])
    if of == "kernel":
        return products.sum((1, 2, 3))
    taps, channels = sizes["TAPS"], sizes["C"]
    return products.reshape(taps, sizes["PARTS"], -1, channels).sum(2).swapaxes(1, 2)


def shifts(sizes: dict[str, int], x: Array) -> list[Array]:
    """For each tap of the window, what each pixel sees."""
    height, width, up, left = (sizes[name] for name in ("H", "W", "PADY", "PADX"))
    rows, columns = sizes["TAPS"] // sizes["KX"], sizes["KX"]
    padded = np.pad(x, ((0, 0), (up, rows), (left, columns), (0, 0)))
    return [padded[:, i : i + height, j : j + width] for i in range(rows) for j in range(columns)]


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


def in_parts(sizes: dict[str, int], seed: int) -> dict[str, int]:
    """The pixels in parts of equal size."""
    pixels = sizes["N"] * sizes["H"] * sizes["W"]
    fitting = [parts for parts in range(1, pixels + 1) if pixels % parts == 0]
    parts = int(np.random.default_rng(seed).choice(fitting))
    return {**sizes, "PARTS": parts, "PIXELS": pixels // parts}


@pytest.mark.parametrize("of", ["image", "kernel", "parts"])
@pytest.mark.parametrize("seed", range(3))
def test_every_order_of_threads_computes_the_same(
    of: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = in_parts(sizes_of(seed), seed) if of == "parts" else sizes_of(seed)
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


@pytest.mark.parametrize("channels", [8, 12, 10, 60])
@pytest.mark.parametrize("seed", range(3))
def test_convolutions_are_products_whose_taps_are_packed_one_by_one(
    seed: int, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(micro_kernel, "MIN_WORK", 1)
    sizes = {**sizes_of(seed), "C": channels, "O": 5 + 4 * seed}
    pixels, depth = sizes["N"] * sizes["H"] * sizes["W"], sizes["TAPS"] * channels
    arrays = arrays_of(sizes)
    weights = np.random.default_rng(seed).normal(size=(depth, sizes["O"])).astype(np.float32)
    arrays |= {"w": weights, "y": np.zeros((pixels, sizes["O"]), np.float32)}
    text = filled(LEFT, "m", "(k / C)", sizes)
    task = ProductTask(1, pixels, sizes["O"], depth, sums=False)
    built = Built(work_of(task, text, {}, arrays, ("y",)), arrays, threads=3)
    assert ("run" in built.locals) == (channels % 4 == 0)
    taps = np.concatenate(shifts(sizes, arrays["x"].astype(float)), axis=-1)
    want = taps.reshape(pixels, depth) @ weights
    result = built.run()["y"]
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4, err_msg=f"{sizes}")
    assert result.tobytes() == built.run(3)["y"].tobytes()


def test_taps_are_unrolled() -> None:
    sizes = {"N": 2, "H": 8, "W": 8, "C": 64, "PADY": 1, "PADX": 1, "KX": 3, "TAPS": 9}
    assert "r" not in kernel("image", sizes).locals


def test_taps_share_the_loop_over_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"N": 2, "H": 8, "W": 8, "C": 64, "PADY": 1, "PADX": 1, "KX": 3, "TAPS": 9}
    costs = walks_of(monkeypatch, "kernel", sizes)
    assert min(costs, key=lambda walk: costs[walk]) == Walk(64, 9)


def test_lanes_are_channels_though_these_are_not_last(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"N": 2, "H": 8, "W": 8, "C": 64, "PADY": 1, "PADX": 1, "KX": 3, "TAPS": 9}
    costs = walks_of(monkeypatch, "parts", {**sizes, "PARTS": 8, "PIXELS": 16})
    assert min(costs, key=lambda walk: costs[walk]) == Walk(64, stride=8)
