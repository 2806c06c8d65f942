"""Arguments that are either float, and options that are words."""

from __future__ import annotations

import pytest

from elaborated import problems, program

GENERIC = """fn scaled(x: float[..], by: float[..], kind: "up" or "down" = "up") -> float[..] {
  return if kind == "up" then x * by else x / by
}
layer Pool(kind: "mean" or "max") {
  fn forward[N, C](x: f32[N, C]) -> f32[C] =
    if kind == "mean" then mean(x, axis = 0) else max(x, axis = 0)
}
model M {
  pool: Pool("max")
  entry run(x: f16[2], y: f32[2, 3]) -> (a: f16[2], b: f32[3]) = (A, pool(y))
}
"""


@pytest.mark.parametrize(
    "call", ["scaled(x, x)", 'scaled(x, 2.0 * x, "down")', "scaled(x, 2.0 + x)"]
)
def test_functions_of_either_float(call: str) -> None:
    program(GENERIC.replace("A,", f"{call},"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("scaled(x, y[:, 0])", "argument `by` of `scaled` must be f16, but this is f32[2]"),
        ("f16(scaled(i32(x), 2))", "argument `x` of `scaled` must be floats, but this is i32[2]"),
        (
            'scaled(x, x, "donw")',
            'argument `kind` of `scaled` must be one of "up", "down", but this is "donw"',
        ),
    ],
)
def test_wrong_arguments_of_either_float(call: str, message: str) -> None:
    (problem,) = problems(GENERIC.replace("A,", f"{call},"))
    assert message in problem
