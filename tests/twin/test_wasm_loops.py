"""Loops of the WebAssembly twin: threads as lanes, several vectors at a time, any threads."""

from __future__ import annotations

import numpy as np
import pytest

from wasm_kernels import Built, work_of
from wgcc.kernel.build import statements
from wgcc.schedule.kernel import ThreadTask

# One thread per column; neighbours read neighbours, a row at a time.
COLUMN_SUMS = """
  var total: f32 = 0.0f;
  for (var r = 0u; r < ROWS; r++) {
    let x_0 = x[r];
    let a_0 = a[r * COLUMNS + o];
    total = (total + x_0 * a_0);
  }
  y[o] = y[o] + total;
"""
# One thread per row.
ROW_SUMS = COLUMN_SUMS.replace("r * COLUMNS + o", "o * ROWS + r")


def built(body: str, rows: int, columns: int) -> Built:
    random = np.random.default_rng(rows + columns)
    shapes = {"x": (rows,), "a": (rows, columns), "y": (columns,)}
    arrays = {name: random.normal(size=at).astype(np.float32) for name, at in shapes.items()}
    constants = {"ROWS": rows, "COLUMNS": columns}
    task = ThreadTask("o", columns, statements(body))
    return Built(work_of(task, "", constants, arrays, ("y",)), arrays, threads=7)


@pytest.mark.parametrize("columns", [1, 3, 4, 15, 16, 17, 31, 32, 37, 64, 100])
def test_sums_over_rows_and_columns(columns: int) -> None:
    for rows in (1, 4, 9, 40):
        for body in (COLUMN_SUMS, ROW_SUMS):
            kernel = built(body, rows, columns)
            x, a, y = (kernel.arrays[name].astype(float) for name in "xay")
            found = kernel.run()["y"]
            want = y + (x @ a if body is COLUMN_SUMS else a.reshape(columns, rows) @ x)
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
            for threads in (2, 3, 7):
                assert found.tobytes() == kernel.run(threads)["y"].tobytes(), (rows, threads)


def test_columns_are_read_in_wide_pieces() -> None:
    """A cache line has four vectors: columns of two lines are summed at a time."""
    together, apart = built(COLUMN_SUMS, 40, 64), built(ROW_SUMS, 40, 64)
    assert "block" in together.locals and "block" not in apart.locals


TWO_SUMS = """
  var total: f32 = 0.0f;
  var squares: f32 = 0.0f;
  for (var r = 0u; r < ROWS; r++) {
    let a_0 = a[r * COLUMNS + o];
    total = (total + x[r] * a_0);
    squares = (squares + a_0 * a_0);
  }
  y[o] = y[o] * squares + total;
"""


@pytest.mark.parametrize("columns", [16, 31, 32, 50, 100])
def test_blocks_of_any_width_give_the_bits_of_a_sum_row_by_row(columns: int) -> None:
    for body in (COLUMN_SUMS, TWO_SUMS):
        kernel = built(body, 21, columns)
        x, a, y = (kernel.arrays[name] for name in "xay")
        total, squares = np.zeros_like(y), np.zeros_like(y)
        for row in range(21):
            total = total + x[row] * a[row]
            squares = squares + a[row] * a[row]
        want = y * squares + total if body is TWO_SUMS else y + total
        # Columns that fill no vector are summed with rows as lanes.
        whole = columns // 4 * 4
        for threads in (1, 3, 7):
            result = kernel.run(threads)["y"]
            np.testing.assert_array_equal(result[:whole], want[:whole])
            np.testing.assert_allclose(result[whole:], want[whole:], rtol=1e-5, atol=1e-5)


BYTE_SUMS = """
  var total: f32 = 0.0f;
  for (var r = 0u; r < ROWS; r++) {
    let x_0 = x[r];
    let a_0 = extractBits(bitcast<i32>(a[r * WORDS + o / 4u]), o % 4u * 8u, 8u);
    total = (total + x_0 * f32(a_0));
  }
  y[o] = total;
"""


@pytest.mark.parametrize("columns", [64, 2048, 2404])
def test_sums_of_bytes(columns: int) -> None:
    """Long rows are read in wider blocks."""
    random, rows = np.random.default_rng(columns), 5
    numbers = random.integers(-128, 128, (rows, columns)).astype(np.int8)
    x = random.normal(size=rows).astype(np.float32)
    arrays = {"x": x, "a": numbers.view(np.uint32), "y": np.zeros(columns, np.float32)}
    task = ThreadTask("o", columns, statements(BYTE_SUMS))
    constants = {"ROWS": rows, "WORDS": columns // 4}
    kernel = Built(work_of(task, "", constants, arrays, ("y",)), arrays, threads=7)
    want = np.zeros(columns, np.float32)
    for row in range(rows):
        want = want + x[row] * numbers[row].astype(np.float32)
    for threads in (1, 3, 7):
        np.testing.assert_array_equal(kernel.run(threads)["y"], want)
