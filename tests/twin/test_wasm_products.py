"""Matrix products of the WebAssembly twin: every form of operand, odd sizes, any threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wasm_kernels import Built, work_of
from wgcc.backends.wasm.panels import micro_kernel
from wgcc.backends.wasm.panels.micro_kernel import tiling_of
from wgcc.schedule.kernel import ProductTask

Array = np.ndarray[Any, Any]
# (batch, rows, columns, inner)
SIZES = (
    *((1, 1, 1, 1), (1, 4, 8, 4), (2, 5, 9, 5), (1, 7, 17, 6), (1, 17, 7, 17), (3, 6, 10, 7)),
    *((1, 13, 4, 9), (1, 4, 33, 16), (1, 9, 12, 8), (2, 16, 16, 16), (1, 3, 40, 8), (1, 40, 3, 8)),
    *((1, 8, 65, 12), (1, 70, 24, 5)),
)
# How an element is found, and the shape of what it is taken from.
LEFTS = {
    "rows": ("(z * M + m) * K + k", "zmk"),
    "columns": ("(z * K + k) * M + m", "zkm"),
    "far apart": ("(k * Z + z) * M + m", "kzm"),
}
RIGHTS = {
    "rows": ("(z * K + k) * N + n", "zkn"),
    "transposed": ("(z * N + n) * K + k", "znk"),
    "far apart": ("(k * N + n) * Z + z", "knz"),
}
PLAIN = ("a[{left}]", "b[{right}]", "y[(z * M + m) * N + n] = product;")
COMPUTED = (
    "a[{left}] * 0.5 + f32(k)",
    "max(b[{right}], 0.0) - f32(n % 4u)",
    "y[(z * N + n) * M + m] = y[(z * N + n) * M + m] + exp(product * 0.01) * c[n];",
)
SUM = "fn finish_sum(n: u32, total: f32) { s[n] = total * 2.0; }"


def arrays_of(sizes: tuple[int, ...], left: str, right: str) -> dict[str, Array]:
    random = np.random.default_rng(sum(sizes))
    extent = dict(zip("zmnk", sizes, strict=True))
    shapes = {"a": LEFTS[left][1], "b": RIGHTS[right][1], "c": "n", "s": "n", "y": "zmn"}
    return {
        name: random.normal(size=[extent[axis] for axis in axes]).astype(np.float32)
        for name, axes in shapes.items()
    }


def product(
    sizes: tuple[int, ...], left: str, right: str, form: tuple[str, str, str], sums: bool = False
) -> Built:
    arrays = arrays_of(sizes, left, right)
    a, b, store = form
    texts = (
        f"fn left(z: u32, m: u32, k: u32) -> f32 {{ let x = {a}; return x; }}",
        f"fn right(z: u32, k: u32, n: u32) -> f32 {{ return {b}; }}",
        f"fn finish(z: u32, m: u32, n: u32, product: f32) {{ {store} }}",
        SUM if sums else "",
    )
    functions = "\n".join(texts).replace("{left}", LEFTS[left][0])
    functions = functions.replace("{right}", RIGHTS[right][0])
    constants = dict(zip("ZMNK", sizes, strict=True))
    task = ProductTask(*sizes, sums=sums)
    return Built(work_of(task, functions, constants, arrays, ("s", "y")), arrays, threads=5)


def operands(built: Built, left: str, right: str) -> tuple[Array, Array]:
    """As (z, m, k) and (z, k, n), in f64."""
    a = np.einsum(f"{LEFTS[left][1]}->zmk", built.arrays["a"].astype(float))
    return a, np.einsum(f"{RIGHTS[right][1]}->zkn", built.arrays["b"].astype(float))


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products over panels, too, in several blocks of columns."""
    for name in ("MIN_WORK", "MIN_ROWS", "MIN_COLUMNS", "MIN_DEPTH"):
        monkeypatch.setattr(micro_kernel, name, 1)
    monkeypatch.setattr(micro_kernel, "MOST_PACKED", 256)
    # Panels are kept apart where the depth is even.
    monkeypatch.setattr(micro_kernel, "ALIASED", 16)


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("right", RIGHTS)
@pytest.mark.parametrize("left", LEFTS)
def test_operands_are_packed_however_they_are_stored(left: str, right: str) -> None:
    for sizes in SIZES:
        built = product(sizes, left, right, PLAIN)
        assert "multiply_panels" in built.functions
        a, b = operands(built, left, right)
        np.testing.assert_allclose(
            built.run()["y"], a @ b, rtol=1e-5, atol=1e-5, err_msg=f"{sizes}"
        )


@pytest.mark.parametrize("left", LEFTS)
def test_long_rows_are_packed_part_by_part(left: str) -> None:
    # 33, 66 and 131 vectors, which is prime; and some elements more
    for sizes in ((1, 6, 9, 132), (2, 5, 8, 265), (1, 4, 16, 527)):
        built = product(sizes, left, "rows", PLAIN)
        a, b = operands(built, left, "rows")
        np.testing.assert_allclose(built.run()["y"], a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize(("left", "right"), [("rows", "transposed"), ("columns", "rows")])
def test_what_is_computed_on_operands_and_results(left: str, right: str) -> None:
    for sizes in SIZES:
        built = product(sizes, left, right, COMPUTED)
        a, b = operands(built, left, right)
        a = a * 0.5 + np.arange(sizes[3])
        b = np.maximum(b, 0) - np.arange(sizes[2]) % 4
        z, m, n, _ = sizes
        y = built.arrays["y"].astype(float).reshape(z, n, m).transpose(0, 2, 1)
        want = y + np.exp((a @ b) * 0.01) * built.arrays["c"]
        found = built.run()["y"].reshape(z, n, m).transpose(0, 2, 1)
        np.testing.assert_allclose(found, want, rtol=2e-5, atol=1e-5, err_msg=f"{sizes}")


@pytest.mark.usefixtures("any_size")
def test_bias_gradients_are_column_sums_of_the_right_operand() -> None:
    for sizes in SIZES:
        if sizes[0] == 1:
            built = product(sizes, "columns", "rows", PLAIN, sums=True)
            found = built.run()
            a, b = operands(built, "columns", "rows")
            np.testing.assert_allclose(found["y"], a @ b, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(found["s"], 2 * b[0].sum(axis=0), rtol=1e-5, atol=1e-5)


WINDOW = """
fn left(z: u32, m: u32, k: u32) -> f32 {
  let inside = m + k / C - 1u < M;
  let at = select(0u, (m + k / C) * C + k % C - C, inside);
  let x = a[at];
  return select(0.0, x, inside);
}
fn right(z: u32, k: u32, n: u32) -> f32 { return b[k * N + n]; }
fn finish(z: u32, m: u32, n: u32, product: f32) { y[m * N + n] = product; }
"""


@pytest.mark.parametrize("channels", [1, 3, 4, 8])
def test_windows_reach_beyond_the_border(channels: int) -> None:
    """A convolution: rows of the left operand overlap, and are zero outside of the input."""
    rows, taps, columns = 21, 4, 16
    depth, random = taps * channels, np.random.default_rng(channels)
    shapes = {"a": (rows, channels), "b": (depth, columns), "y": (rows, columns)}
    arrays = {name: random.normal(size=at).astype(np.float32) for name, at in shapes.items()}
    constants = {"M": rows, "N": columns, "C": channels}
    task = ProductTask(1, rows, columns, depth, sums=False)
    built = Built(work_of(task, WINDOW, constants, arrays, ("y",)), arrays)
    padded = np.vstack([np.zeros((1, channels)), arrays["a"], np.zeros((taps, channels))])
    windows = np.stack([padded[i : i + taps].reshape(-1) for i in range(rows)])
    assert "multiply_panels" in built.functions
    np.testing.assert_allclose(built.run()["y"], windows @ arrays["b"], rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("any_size")
def test_threads_give_the_same_bits() -> None:
    for sizes in ((1, 13, 9, 7), (3, 6, 10, 7), (1, 4, 65, 12), (1, 33, 16, 16)):
        built = product(sizes, "rows", "rows", COMPUTED, sums=sizes[0] == 1)
        alone = built.run()
        for threads in (2, 3, 5):
            shared = built.run(threads)
            assert all((alone[name] == shared[name]).all() for name in ("y", "s")), (sizes, threads)


def test_blocks_of_columns_fit_the_cache_and_feed_the_threads() -> None:
    def blocks(rows: int, columns: int, depth: int) -> tuple[int, int]:
        found = tiling_of(ProductTask(1, rows, columns, depth, sums=False))
        assert found is not None
        return found.block, found.blocks

    assert blocks(512, 512, 128) == (512, 1)
    assert blocks(512, 512, 512) == (256, 2)
    assert blocks(512, 65, 128) == (72, 1)
    assert blocks(512, 1000, 65536) == (8, 125)
    assert blocks(8, 1024, 64) == (128, 8)
    assert tiling_of(ProductTask(1, 1, 64, 64, sums=False)) is None
