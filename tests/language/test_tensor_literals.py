"""Lists of numbers where a tensor is expected: `[[1.0, 2.0], [3.0, 4.0]]` is f32[2, 2]."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wgcc_runtime
from building import build
from elaborated import problems, program
from expressions import problem_of
from wgcc.passes.known_values import fold_tensors

PROGRAM = """
const table = [[0.0, 1.0], [2.0, 3.0]]
fn doubled[N](x: f32[N, 2]) -> f32[N, 2] = x * 2.0
fn pair() -> f32[2] = [1.0, 2.0]
test "lists as tensors" {
  a = f32([[1, 2], [3, 4]])
  assert close(a, reshape(f32(arange(4) + 1), [2, 2]))
  assert close(doubled(table)[1], [4.0, 6.0])
  assert close(pair(), [1, 2])
  assert all(arange(3) == [0, 1, 2])
  b: f32[3] = [1.0, 2.0, 3.0]
  assert close(b @ [1.0, 0.0, 1.0], 4.0)
  assert close([[1.0, 0.0, 1.0]] @ b, [4.0])
  assert close([1.0, 2.0] ** 2.0, [1.0, 4.0])
  assert close(sum([1.0, 2.0]), 3.0)
  assert close(exp([0, 0]), [1, 1])
  assert close([1, 2] * 0.5, [0.5, 1.0])
  assert close(maximum([1, 5], [2.5, 2.5]), [2.5, 5.0])
  assert all([true, false] or not [true, false])
  assert close(square([2, 3]), [4, 9])
  assert close(gather(a, [1, 0])[0], a[1])
  assert close(a[[1, 0], [0, 1]], [3.0, 2.0])
  assert close(concat([[1.0], b], axis = 0)[0], 1.0)
  assert close(where([true, false], 1.0, [2.0, 3.0]), [1.0, 3.0])
  assert close(-[1.0, 2.0] * 2.0, [-2, -4])
  assert close(f16([1.0, 2.0]) + [1, 2], [2.0, 4.0])
  assert shape(a) == [2, 2]
  assert shape(zeros(f32[2, 3])) == [2] + [3]
}
"""
MODEL = """
model M {
  param w: f32[2, 2] = [[1.0, 2.0], [3.0, 4.0]]
  state s: i32[3] = [1, 2, 3]
  entry run(x: f32[5, 2], i: i32[4]) -> (y: f32[5, 2], s: i32[3], z: f32[2], found: i32[4]) {
    s := s + [3, 4, 5]
    return x @ w + [0.5, 0.25], s, [7.0, 8.0], gather([5, 1, 0], i)
  }
  entry blur(x: f32[1, 5, 5, 1]) -> (y: f32[1, 3, 3, 1]) {
    k = [[1, 2, 1], [2, 4, 2], [1, 2, 1]]
    return conv2d(x, reshape(f32(k), [3, 3, 1, 1])) / 16.0
  }
}
"""


def test_where_a_tensor_is_expected() -> None:
    assert problems(PROGRAM) == []


def test_on_each_machine(tmp_path: Path, target: str) -> None:
    (tmp_path / "model.wg").write_text(MODEL, encoding="utf-8")
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    with wgcc_runtime.load(build(tmp_path / "model.wg", tmp_path / "b"), device=target) as model:
        found = model.call("run", x=x, i=np.int32([2, 1, 0, 0]))
        np.testing.assert_array_equal(found["y"], x @ [[1, 2], [3, 4]] + [0.5, 0.25])
        np.testing.assert_array_equal(found["s"], [4, 6, 8])
        np.testing.assert_array_equal(found["z"], [7, 8])
        np.testing.assert_array_equal(found["found"], [0, 1, 5, 5])
        image = np.arange(25, dtype=np.float32).reshape(1, 5, 5, 1)
        y = model.call("blur", x=image)["y"]
        np.testing.assert_allclose(y, image[:, 1:4, 1:4], 1e-6)


def test_a_long_list_is_a_constant_of_the_bundle() -> None:
    """A short one is compared with the index, which needs no binding."""
    graphs = program(MODEL).entries
    assert [c.value.shape for c in fold_tensors(graphs["blur"]).constants] == [(3, 3)]
    assert fold_tensors(graphs["run"]).constants == ()


def test_indices_in_a_list_are_checked_at_compile_time() -> None:
    text = "model M { entry e(x: f32[3]) -> (y: f32[2]) = x[[0, %s]] }"
    assert problems(text % 2) == []
    assert [line[:8] for line in problems(text % 3)] == ["WG0413 1"]


CASES = """
m + [1.0, 2.0] | + | WG0411 | `+`: the shapes cannot be broadcast
m + [[1.0], [2.0, 3.0]] | [[1.0], [2.0, 3.0]] | WG0415 | the rows of a tensor must be equally long, and not empty
m + [] | [] | WG0415 | the rows of a tensor must be equally long, and not empty
i * [0.5, 1.0, 2.0] | [0.5, 1.0, 2.0] | WG0501 | i32 expected, but this list has the number 0.5
m * [v, v, v] | [v, v, v] | WG0501 | a tensor is made of numbers known at compile time, but this list has f32[C]
m * [1.0, "a"] | [1.0, "a"] | WG0501 | f32 expected, but this list has a string
exp([true]) | [true] | WG0501 | f32 expected, but this list has a bool
u * [1, 300, 2] | [1, 300, 2] | WG0504 | 300 does not fit into u8 (0 to 255)
"""  # noqa: E501


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_problem(case: str) -> None:
    expression, place, code, message = case.split(" | ")
    types = {"m": "f32[B, C]", "v": "f32[C]", "i": "i32[B]", "u": "u8[B]"}
    problem = problem_of(expression, **types)
    assert (problem.code, problem.message, problem.span.text) == (code, message, place)
