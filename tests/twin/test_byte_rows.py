"""Products of one row with matrices of bytes: eight bytes a load, several rows of them at a time,
and the sums of each column still in the order of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from wgcc.compiler import compile_file
from wgcc.errors import Source

Array = np.ndarray[Any, Any]
SOURCE = """
model Bytes {
  frozen param w: DTYPE[DEPTH, COLS] ~ external
  entry row(x: f32[1, DEPTH]) -> (y: f32[1, COLS]) { return x @ f32(w) }
}
"""


@pytest.mark.parametrize("dtype", ("i8", "u8"))
@pytest.mark.parametrize("cols", (2048, 2051, 2304, 4095))
@pytest.mark.parametrize("depth", (64, 37))
def test_each_column_is_summed_in_order(dtype: str, depth: int, cols: int, tmp_path: Path) -> None:
    text = SOURCE.replace("DTYPE", dtype).replace("DEPTH", str(depth)).replace("COLS", str(cols))
    random = np.random.default_rng(cols)
    low, high = (-128, 128) if dtype == "i8" else (0, 256)
    w = random.integers(low, high, (depth, cols)).astype({"i8": "i1", "u8": "u1"}[dtype])
    x = random.normal(size=(1, depth)).astype("f4")
    compile_file(Source("model.wg", text)).write(tmp_path / "bundle")
    results = []
    for threads in (1, 3):
        with wgcc_runtime.load(
            tmp_path / "bundle", device="wasm", weights={"w": w}, threads=threads
        ) as model:
            results.append(model.call("row", x=x)["y"][0])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], x[0].astype("f8") @ w, rtol=1e-5, atol=1e-2)
    if cols % 4 == 0:
        # Rows begin with whole words: columns are lanes, and each has one sum.
        np.testing.assert_array_equal(results[0], sum_in_order(x[0], w))


def sum_in_order(x: Array, w: Array) -> Array:
    total = np.zeros(w.shape[1], np.float32)
    for number, row in zip(x, w, strict=True):
        total += number * row.astype(np.float32)
    return total
