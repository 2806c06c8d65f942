"""Tuples as arguments and results of functions and layers, and on the left of `=`."""

from __future__ import annotations

import numpy as np

from elaborated import program
from wgcc.evaluate import Session

CELL = """
layer Cell[D] {
  param w: f32[D, D] ~ normal(0.0, 1.0)
  fn forward[N](state: (h: f32[N, D], (f32[N, D], f32)), x: f32[N, D])
      -> ((f32[N, D], (f32[N, D], f32)), f32[N, D]) {
    h, (c, steps) = state
    c = c + x @ w
    h = h * c
    return (h, (c, steps + 1.0)), h + c
  }
}
model Loop {
  cell: Cell[3]
  entry run(xs: f32[4, 2, 3]) -> (h: f32[2, 3], c: f32[2, 3], y: f32[2, 3], steps: f32) {
    (h, (c, steps)) = (ones(f32[2, 3]), (zeros(f32[2, 3]), 0.0))
    for t in 4 { (h, (c, steps)), y = cell((h, (c, steps)), xs[t]) }
    return h, c, y, steps
  }
}
"""


def test_nested_state_of_a_cell_is_passed_and_returned() -> None:
    rng = np.random.default_rng(1)
    w, xs = rng.normal(size=(3, 3)), rng.normal(size=(4, 2, 3))
    found = Session(program(CELL), {"cell.w": w}).call("run", {"xs": xs})
    h, c = np.ones((2, 3)), np.zeros((2, 3))
    for x in xs:
        c = c + x @ w
        h = h * c
    np.testing.assert_allclose(found["h"], h)
    np.testing.assert_allclose(found["c"], c)
    np.testing.assert_allclose(found["y"], h + c)
    assert found["steps"] == 4.0


def test_leading_axes_and_sizes_are_inferred_through_tuples() -> None:
    found = program("""
fn both[D](pair: (f32[.., D], f32[D]) ) -> f32[..] = sum(pair[0] * pair[1], axis = -1)
fn unused[D](pair: (f32[.., D], f32[..])) -> (f32[.., D], f32[..]) = pair
model Sums {
  entry run(x: f32[2, 3], y: f32[3]) -> (z: f32[2]) = both((x, y))
}
""")
    x, y = np.arange(6.0).reshape(2, 3), np.array([1.0, 0.0, 2.0])
    np.testing.assert_allclose(Session(found, {}).call("run", {"x": x, "y": y})["z"], x @ y)
