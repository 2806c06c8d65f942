"""Products of one row with matrices of bytes: eight bytes a load, several rows of them at a time,
and the sums of each column still in the order of the rows. Halves of bytes and their scales are
known before the loop over a group of rows."""

from __future__ import annotations

from collections.abc import Callable
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


PACKED = """
dim D = DEPTH, O = COLS
model Packed {
  param four: u8[D / 2, O] ~ external
  param eight: i8[D, O] ~ external
  param scale: f32[D / 32, O] ~ external
  param fine: f32[D / 16, O] ~ external
  param low: f32[D / 32, O] ~ external
  entry row4(x: f32[1, D]) -> (y: f32[1, O]) = x @ unpack4(four, scale, low)
  entry row8(x: f32[1, D]) -> (y: f32[1, O]) = x @ unpack8(eight, fine)
}
""".replace("param", "frozen param")


@pytest.mark.parametrize(("depth", "cols"), [(32, 36), (96, 100), (352, 64), (64, 2048), (96, 21)])
def test_groups_of_packed_rows_are_summed_in_order(depth: int, cols: int, tmp_path: Path) -> None:
    random = np.random.default_rng(depth + cols)
    weights = {
        "four": random.integers(0, 256, (depth // 2, cols)).astype("u1"),
        "eight": random.integers(-128, 128, (depth, cols)).astype("i1"),
        "scale": random.normal(size=(depth // 32, cols)).astype("f4"),
        "fine": random.normal(size=(depth // 16, cols)).astype("f4"),
        "low": random.normal(size=(depth // 32, cols)).astype("f4"),
    }
    bytes_ = weights["four"].reshape(-1, 16, cols)
    q = np.concatenate([bytes_ & 15, bytes_ >> 4], axis=1).reshape(depth, cols).astype("f4")
    scale, low = (np.repeat(weights[name], 32, axis=0) for name in ("scale", "low"))
    eight = weights["eight"] * np.repeat(weights["fine"], 16, axis=0)
    text = PACKED.replace("DEPTH", str(depth)).replace("COLS", str(cols))
    compile_file(Source("model.wg", text)).write(tmp_path / "b")
    x = random.normal(size=(1, depth)).astype("f4")
    for threads in (1, 3):
        with wgcc_runtime.load(tmp_path / "b", "wasm", weights=weights, threads=threads) as model:
            for entry, whole in (("row4", q * scale + low), ("row8", eight)):
                y = model.call(entry, x=x)["y"][0]
                np.testing.assert_allclose(y, x[0].astype("f8") @ whole, rtol=1e-4, atol=1e-3)
                if cols % 4 == 0:
                    np.testing.assert_array_equal(y, sum_in_order(x[0], whole))


def test_whole_numbers_become_floats_whatever_is_known_of_them(tmp_path: Path) -> None:
    """Bounds of what bytes, quotients and masks can be choose the instruction: random ones."""
    random = np.random.default_rng(11)
    expressions = [_whole_number(random, random.integers(1, 5)) for _ in range(40)]
    lines = [f"  y{i} = f32({text})" for i, (text, _) in enumerate(expressions)]
    names = [f"y{i}" for i in range(len(lines))]
    text = "\n".join([
        "model Whole {", "  frozen param w: u8[4, 40] ~ external",
        f"  entry all(x: f32[1]) -> ({', '.join(f'{name}: f32[4, 40]' for name in names)}) {{",
        *lines, f"  return {', '.join(names)}", "  }", "}",
    ])  # fmt: skip
    w = random.integers(0, 256, (4, 40)).astype("u1")
    compile_file(Source("model.wg", text)).write(tmp_path / "b")
    with wgcc_runtime.load(tmp_path / "b", device="wasm", weights={"w": w}) as model:
        results = model.call("all", x=np.zeros(1, np.float32))
    for name, (expression, value) in zip(names, expressions, strict=True):
        np.testing.assert_array_equal(results[name], value(w).astype("f4"), expression)


def _whole_number(random: Any, depth: int) -> tuple[str, Callable[[Array], Array]]:
    """An expression of u32, and the same in numpy."""
    if not depth:
        return "u32(w)", lambda w: w.astype(np.uint32)
    text, inner = _whole_number(random, depth - 1)
    op, by = random.choice(["+", "*", "/", "%"]), int(random.choice([2, 3, 16, 255, 4294967040]))
    functions = {"+": np.add, "*": np.multiply, "/": np.floor_divide, "%": np.remainder}
    return f"({text} {op} {by})", lambda w: functions[op](inner(w), np.uint32(by))


def sum_in_order(x: Array, w: Array) -> Array:
    total = np.zeros(w.shape[1], np.float32)
    for number, row in zip(x, w, strict=True):
        total += number * row.astype(np.float32)
    return total
