"""Elements looked up by tensors of indices, added up by index, and sorted: against numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from elaborated import only, program
from expressions import Case, graphs_of, run, value_of
from wgcc.ir.graph import Graph
from wgcc.ops import OPS
from wgcc_runtime import WgccError

RNG = np.random.default_rng(5)
X = RNG.normal(size=(2, 3, 4))
M = RNG.normal(size=(3, 4))
TIES = RNG.integers(0, 3, (3, 40))
I, J = np.array([0, 1, 1]), np.array([2, 0, 2])  # noqa: E741
WIDE = RNG.integers(0, 4, (2, 3, 5))
NARROW = WIDE[:1, :1, 1:] % 3
X3, M2 = {"x": ("f32[A, B, C]", X)}, {"x": ("f32[B, C]", M)}
IJ = {"i": ("i32[B]", I), "j": ("i32[B]", J)}
T = {"x": ("i32[B, 40]", TIES)}

DOWN = np.argsort(-TIES, axis=1, kind="stable")
LAST = np.array([[max(t for t in range(n + 1) if row[t] == max(row[: n + 1])) for n in range(40)]
                 for row in TIES])  # fmt: skip


def scattered(x: Any, ids: Any, values: Any, axis: int) -> Any:
    total = np.moveaxis(x.copy(), axis, 0)
    rows, places = np.moveaxis(values, axis, 0), np.moveaxis(ids, axis, 0)
    np.add.at(total, (places, *np.indices(rows.shape)[1:]), rows)
    return np.moveaxis(total, 0, axis)


CASES: list[Case] = [
    ("x[i]", "f32[B, B, C]", {**X3, **IJ}, X[I]),
    ("x[:, j]", "f32[A, B, C]", {**X3, **IJ}, X[:, J]),
    ("x[i, j]", "f32[B, C]", {**X3, **IJ}, X[I, J]),
    ("x[.., j, i]", "f32[A, B]", {**X3, **IJ}, X[:, J, I]),
    ("x[i[:, new], j]", "f32[B, B, C]", {**X3, **IJ}, X[I[:, None], J]),
    ("x[i, j, i + j]", "f32[B]", {**X3, **IJ}, X[I, J, I + J]),
    ("x[1, j]", "f32[B, C]", {**X3, **IJ}, X[1, J]),
    ("x[i, 0, 1 : 3]", "f32[B, 2]", {**X3, **IJ}, X[I, 0, 1:3]),
    ("x[:: -1, j, : 2]", "f32[A, B, 2]", {**X3, **IJ}, X[::-1, J, :2]),
    ("x[new, i, j]", "f32[1, B, C]", {**X3, **IJ}, X[None, I, J]),
    ("x[k, j]", "f32[B, C]", {**X3, **IJ, "k": ("i32", 1)}, X[1, J]),
    ("x[arange(A), j[: 2]]", "f32[A, C]", {**X3, **IJ}, X[np.arange(2), J[:2]]),
    ("x[:, arange(B), j]", "f32[A, B]", {**X3, **IJ}, X[:, np.arange(3), J]),
    ("x[arange(A)[:, new], k]", "f32[A, B, C]", {**X3, "k": ("i32[A, B]", WIDE[:, :, 0] % 3)},
     X[np.arange(2)[:, None], WIDE[:, :, 0] % 3]),
    ("x[arange(A), k]", "f32[B, A, C]", {**X3, "k": ("i32[B, A]", WIDE[0, :, :2] % 3)},
     X[np.arange(2), WIDE[0, :, :2] % 3]),
    ("x[:: -1]", "f32[B, C]", M2, M[::-1]),
    ("x[2 : 0 : -1, -1 : : -2]", "f32[2, 2]", M2, M[2:0:-1, -1::-2]),
    ("x[:, : 0 : -1]", "f32[B, C - 1]", M2, M[:, :0:-1]),
    ("x[:, -2 : -4 : -1]", "f32[B, 2]", M2, M[:, -2:-4:-1]),
    ("x[:, :: -3]", "f32[B, 2]", M2, M[:, ::-3]),
    ("take_along_axis(x, k)", "f32[A, B, D]", {**X3, "k": ("i32[A, B, D]", WIDE)},
     np.take_along_axis(X, WIDE, -1)),
    ("take_along_axis(x, k, B)", "f32[A, 1, C]", {**X3, "k": ("i32[1, 1, C]", NARROW)},
     np.take_along_axis(X, np.repeat(NARROW, 2, 0), 1)),
    ("scatter_add(x, k, y, axis = C)", "f32[A, B, C]",
     {**X3, "k": ("i32[A, B, D]", WIDE), "y": ("f32[A, B, D]", WIDE * 0.5)},
     scattered(X, WIDE, WIDE * 0.5, 2)),
    ("scatter_add(x, i, y)", "f32[B, C]", {**M2, **IJ, "y": ("f32[B, C]", M * 2)},
     scattered(M, np.repeat(I[:, None], 4, 1), M * 2, 0)),
    ("scatter_add(x, i, y, axis = B)", "f32[A, B, C]", {**X3, **IJ, "y": ("f32[A, B, C]", X * 2)},
     scattered(X, np.broadcast_to(I[:, None], X.shape), X * 2, 1)),
    ("segment_sum(x, i, D)", "f32[D, C]", {**M2, **IJ},
     scattered(np.zeros((5, 4)), np.repeat(I[:, None], 4, 1), M, 0)),
    ("segment_sum(ones(i32[A, B, D]), k, E)", "i32[E]", {"k": ("i32[A, B, D]", WIDE)},
     np.bincount(WIDE.ravel(), minlength=6)),
    ("argsort(x)", "i32[B, 40]", T, np.argsort(TIES, axis=1, kind="stable")),
    ("argsort(x, descending = true)", "i32[B, 40]", T, DOWN),
    ("argsort(x, axis = B)", "i32[B, C]", M2, np.argsort(M, axis=0)),
    ("sort(x, axis = A)[0]", "f32[A, B, C]", X3, np.sort(X, axis=0)),
    ("sort(x, descending = true)[1]", "i32[B, 40]", T, DOWN),
    ("top_k(x, 7)[0]", "i32[B, 7]", T, np.take_along_axis(TIES, DOWN[:, :7], 1)),
    ("top_k(x, 7)[1]", "i32[B, 7]", T, DOWN[:, :7]),
    ("cummax(x)[0]", "f32[A, B, C]", X3, np.maximum.accumulate(X, 2)),
    ("cummax(x)[1]", "i32[B, 40]", T, LAST),
    ("cummax(x, axis = B)[0]", "f32[B, C]", M2, np.maximum.accumulate(M, 0)),
    ("atan2(x, 0.5)", "f32[B, C]", M2, np.arctan2(M, 0.5)),
    ("x * atan2(1.0, -1)", "f32[B, C]", M2, M * (0.75 * np.pi)),
    ("round(x)", "f32[3]", {"x": ("f32[3]", [0.5, 1.5, -2.5])}, [0.0, 2.0, -2.0]),
    ("x * round(2.5) * ceil(0.1) * trunc(-3.9)", "f32[B, C]", M2, M * -6),
]  # fmt: skip


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return graphs_of(CASES)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case[0] for case in CASES])
def test_value(number: int, graphs: list[Graph]) -> None:
    _, _, inputs, expected = CASES[number]
    np.testing.assert_allclose(run(graphs[number], inputs), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("size", "k"), [(2049, 512), (3072, 40), (5000, 3), (140_000, 7)])
def test_the_largest_of_a_long_axis(size: int, k: int) -> None:
    """Found in parts; there are many equal numbers, of which the first come first."""
    x = np.random.default_rng(size).integers(0, 50, (2, size))
    best = np.argsort(-x, axis=1, kind="stable")[:, :k]
    inputs = {"x": (f"i32[2, {size}]", x)}
    np.testing.assert_array_equal(value_of(f"top_k(x, {k})[1]", f"i32[2, {k}]", **inputs), best)
    along_first = f"top_k(transpose(x), {k}, axis = 0)[1]"
    np.testing.assert_array_equal(value_of(along_first, f"i32[{k}, 2]", **inputs), best.T)


def test_order_of_special_numbers_is_pytorchs() -> None:
    """As PyTorch 2.13 gives it, with `stable=True`."""
    nan, inf = np.nan, np.inf
    x = np.array([3.0, nan, 1.0, 3.0, -0.0, 0.0, inf, -inf])
    argsort, running = OPS["argsort"].reference, OPS["running_argmax"].reference
    assert argsort(x, 0, False).tolist() == [7, 4, 5, 2, 0, 3, 6, 1]
    assert argsort(x, 0, True).tolist() == [1, 6, 0, 3, 2, 4, 5, 7]
    y = np.array([1.0, 1.0, 3.0, 3.0, 2.0, nan, 5.0, nan])
    assert running(y, 0).tolist() == [0, 1, 2, 3, 3, 5, 5, 7]


MODEL = """
model M {
  state kept: f32[6] = 0.0
  state at: i32 = 0
  entry look(x: f32[3, 4], i: i32[5], j: i32[5]) -> (y: f32[5], dx: f32[3, 4]) {
    y = x[i, j]
    return y, grad(sum(y * f32(arange(5))), x)
  }
  entry order(x: f32[2, 3000], y: f32[5, 9]) -> (
    up: i32[2, 3000], best: f32[5, 3], dy: f32[5, 9], top: f32[5, 9], special: i32[3, 8],
    long: i32[2, 9]
  ) {
    down, _ = sort(y, descending = true)
    best, ids = top_k(y, 3)
    top, _ = cummax(y)
    weighed = sum(down * f32(arange(9))) + sum(best) + sum(square(top))
    odd = [3.0, 0.0, 1.0, 3.0, 0.0, 0.0, 1.0, -1.0] / [1.0, 0.0, 1.0, 1.0, -1.0, 1.0, 0.0, 0.0]
    odd = odd + 0.0 * y[0, 0]
    special = stack([argsort(odd), argsort(odd, descending = true), cummax(odd)[1]])
    _, long = top_k(round(3.0 * x), 9)
    return argsort(sqrt(x)), take_along_axis(y, ids), grad(weighed, y), top, special, long
  }
  entry count(ids: i32[9]) -> (n: i32[4], total: f32[4]) {
    total = scatter_add(ones(f32[4]), ids, 0.5 * f32(arange(9)))
    return segment_sum(ones(i32[9]), ids, 4), total
  }
  entry kept_backwards(x: f32[3]) -> (kept: f32[6]) {
    kept[4 : : -2] := x
    return kept
  }
  entry move(by: i32) -> (y: f32) {
    at := at + by
    return sum(kept[at + arange(2)])
  }
}
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lookups")
    (folder / "model.wg").write_text(MODEL, encoding="utf-8")
    return build(folder / "model.wg", folder / "bundle")


def test_on_each_machine(bundle: Path, target: str) -> None:
    rng = np.random.default_rng(0)
    with wgcc_runtime.load(bundle, device=target) as model:
        _look(model, rng)
        _order(model, rng)
        ids = rng.integers(0, 4, 9)
        found = model.call("count", ids=ids.astype(np.int32))
        np.testing.assert_array_equal(found["n"], np.bincount(ids, minlength=4))
        total = 1 + np.bincount(ids, 0.5 * np.arange(9), minlength=4)
        np.testing.assert_allclose(found["total"], total, 1e-6)
        kept = model.call("kept_backwards", x=np.float32([1, 2, 3]))["kept"]
        np.testing.assert_array_equal(kept, [3, 0, 2, 0, 1, 0])
        _refuse(model)


def _look(model: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4)).astype(np.float32)
    i, j = rng.integers(0, 3, 5).astype(np.int32), rng.integers(0, 4, 5).astype(np.int32)
    found = model.call("look", x=x, i=i, j=j)
    np.testing.assert_array_equal(found["y"], x[i, j])
    dx = np.zeros((3, 4))
    np.add.at(dx, (i, j), np.arange(5))
    np.testing.assert_allclose(found["dx"], dx)


def _order(model: Any, rng: np.random.Generator) -> None:
    """Negative elements have no root: NaN comes last."""
    x = rng.normal(size=(2, 3000)).astype(np.float32)
    y = rng.normal(size=(5, 9)).astype(np.float32)
    found = model.call("order", x=x, y=y)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found["up"], np.argsort(np.sqrt(x), axis=1, kind="stable"))
    np.testing.assert_array_equal(found["best"], -np.sort(-y, axis=1)[:, :3])
    np.testing.assert_array_equal(found["top"], np.maximum.accumulate(y, 1))
    rank = np.argsort(np.argsort(-y, axis=1), axis=1)
    place = np.array([[np.argmax(row[: n + 1]) for n in range(9)] for row in y])
    dy = rank * 1.0 + (rank < 3)
    np.add.at(dy, (np.arange(5)[:, None], place), 2 * found["top"])
    np.testing.assert_allclose(found["dy"], dy, 1e-5, 1e-5)
    long = np.argsort(-np.rint(np.float32(3) * x), axis=1, kind="stable")[:, :9]
    np.testing.assert_array_equal(found["long"], long)
    special = [[7, 4, 5, 2, 0, 3, 6, 1], [1, 6, 0, 3, 2, 4, 5, 7], [0, 1, 1, 1, 1, 1, 1, 1]]
    np.testing.assert_array_equal(found["special"], special)


def _refuse(model: Any) -> None:
    x, good = np.zeros((3, 4), np.float32), np.zeros(5, np.int32)
    bad = np.array([0, 0, 3, 0, 0], np.int32)
    with pytest.raises(WgccError, match="`i`"):
        model.call("look", x=x, i=bad, j=good)
    model.call("look", x=x, i=good, j=bad)
    with pytest.raises(WgccError) as caught:
        model.call("move", by=np.int32(5))
    assert caught.value.code == "range"
    model.call("move", by=np.int32(4))


def test_one_column_for_each_row_is_looked_up_row_by_row() -> None:
    """Then the gradient of an element looks through the columns of its own row only."""
    text = "model M {{ entry e(x: f32[9, 7], j: i32[9]) -> (y: f32[9]) = x[{}, j] }}"
    for rows, op in (("arange(9)", "take_along"), ("arange(9) % 9", "gather")):
        assert only(program(text.format(rows)).entries["e"], op).output.shape[0] == 9


def test_positions_that_a_sort_gives_need_no_check() -> None:
    text = MODEL.replace("kept[at + arange(2)]", "kept[argsort(kept)]")
    assert program(MODEL).entries["move"].entry.range_guard is not None
    assert program(text).entries["move"].entry.range_guard is None
