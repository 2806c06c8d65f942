"""Functions that state their own gradient: `fn f(x) … grad g { … }`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import wgcc_runtime
from building import build
from elaborated import problems, program
from wgcc.evaluate import Session
from wgcc.passes.autograd import autograd
from wgcc.passes.mark_rows import mark_rows
from wgcc.passes.pipeline import run_passes
from wgcc.passes.rematerialise import mark_remat

FUNCTIONS = """
fn softer(x: f32[..]) -> f32[..] {
  e = exp(-abs(x))
  return maximum(x, 0.0) + log(1.0 + e)
}
grad g { return g * sigmoid(x) }

fn weighted[N, D](x: f32[N, D], w: f32[D], at: i32) -> (f32[N, D], (f32, i32)) {
  y = softer(x) * w
  return y, (sum(y * y), at + 1)
}
grad gy, rest {
  g, _ = rest
  total = gy + 2.0 * g * y
  return total * w * sigmoid(x), sum(total * softer(x), axis = 0)
}

fn twins(x: f32[..]) -> (f32[..], f32[..]) {
  y = x * x
  return y, y
}
grad ga, gb { return 2.0 * x * ga + 20.0 * x * gb }
"""
MODEL = (
    FUNCTIONS
    + """
layer Part[D] {
  param w: f32[D] ~ normal(1.0, 0.1)
  fn forward[N](x: f32[N, D]) -> f32[N, D] {
    y, (norm, _) = weighted(x, w, 3)
    return y / (1.0 + norm)
  }
}
model M {
  remat parts[2]: Part[3]
  fn loss[N](x: f32[N, 3]) -> f32 {
    for part in parts { x = part(x) }
    return sum(x * x)
  }
  optimizer opt: sgd { lr = 0.5 }
  entry gradients(x: f32[4, 3]) -> (loss: f32, dx: f32[4, 3], dw: f32[3], second: f32[4, 3]) {
    value = loss(x)
    dx, dw = grad(value, (x, parts[0].w))
    return value, dx, dw, grad(sum(dx * dx), x)
  }
  entry train(x: f32[4, 3]) -> (value: f32) {
    value = loss(x)
    minimize value with opt
    return value
  }
}
"""
)


def session(text: str = MODEL, parts: int = 0) -> Session:
    found = program(text)
    if parts:
        entries = {name: mark_remat(entry, parts) for name, entry in found.entries.items()}
        found = replace(found, entries=entries)
    rng = np.random.default_rng(3)
    values = {t.name: rng.normal(1.0, 0.1, t.type.shape) for t in found.params.values()}
    return Session(run_passes(found), values)


def central(function: object, x: np.ndarray, h: float = 1e-5) -> np.ndarray:
    result = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[at] = h
        result[at] = (function(x + step) - function(x - step)) / (2 * h)  # type: ignore[operator]
    return result


@pytest.mark.parametrize("parts", [0, 3], ids=["stored", "recomputed"])
def test_gradients_agree_with_central_differences(parts: int) -> None:
    run = session(parts=parts)
    x = np.random.default_rng(4).normal(size=(4, 3))
    found = run.call("gradients", {"x": x})
    numeric = central(lambda x: run.call("gradients", {"x": x})["loss"], x)
    np.testing.assert_allclose(found["dx"], numeric, atol=1e-7)
    second = central(lambda x: (run.call("gradients", {"x": x})["dx"] ** 2).sum(), x)
    np.testing.assert_allclose(found["second"], second, atol=1e-6)

    def of_weights(w: np.ndarray) -> float:
        run.params["parts.0.w"] = w
        return float(run.call("gradients", {"x": x})["loss"])

    numeric = central(of_weights, run.params["parts.0.w"].copy())
    np.testing.assert_allclose(found["dw"], numeric, atol=1e-7)


LOOP = (
    FUNCTIONS
    + """
layer Cell[D] {
  fc: Linear[D, D]
  fn forward[N](state: (f32[N, D], f32[N, D]), x: f32[N, D])
      -> ((f32[N, D], f32[N, D]), f32[N, D]) {
    h, c = state
    c = 0.5 * c + softer(fc(x + h))
    return (tanh(c), c), tanh(c) * c
  }
}
model M {
  cell: Cell[3]
  entry gradients(xs: f32[5, 2, 3]) -> (loss: f32, dx: f32[5, 2, 3]) {
    (h, c), ys = scan(cell, (zeros(f32[2, 3]), zeros(f32[2, 3])), xs)
    loss = sum(h) + mean(square(ys))
    return loss, grad(loss, xs)
  }
}
"""
)


def test_custom_gradients_in_the_body_of_a_loop() -> None:
    run = session(LOOP)
    xs = np.random.default_rng(6).normal(size=(5, 2, 3))
    found = run.call("gradients", {"xs": xs})
    numeric = central(lambda xs: run.call("gradients", {"xs": xs})["loss"], xs)
    np.testing.assert_allclose(found["dx"], numeric, atol=1e-7)


def test_the_stated_gradient_is_used_even_if_it_is_not_the_true_one() -> None:
    text = """
fn fake(x: f32[..], y: f32[..]) -> f32[..] = x * y grad g { return 7.0 * g, 0.0 }
model M {
  entry run(x: f32[3]) -> (a: f32[3], b: f32[3], c: f32[3], d: f32[3]) {
    p, q = twins(x)
    return
      grad(sum(fake(x, x)), x), grad(sum(fake(ones(f32[3]), x)), x),
      grad(sum(p), x) + grad(sum(q), x), grad(sum(p + q), x)
  }
}
"""
    x = np.array([1.0, 2.0, 3.0])
    found = Session(run_passes(program(FUNCTIONS + text)), {}).call("run", {"x": x})
    np.testing.assert_allclose(found["a"], 7.0)
    np.testing.assert_allclose(found["b"], 0.0)
    np.testing.assert_allclose(found["c"], 22.0 * x)
    np.testing.assert_allclose(found["d"], 22.0 * x)


def test_grad_is_still_a_name_elsewhere() -> None:
    assert (
        problems("""
test "names" {
  x = ones(f32[2])
  grad_of_x = grad(sum(x * x), x)
  grad = 2.0
  assert close(grad_of_x, grad * x)
}
""")
        == []
    )


def test_no_marker_is_left_where_nothing_is_differentiated() -> None:
    found = program(FUNCTIONS + "model M { entry run(x: f32[3]) -> (y: f32[3]) = softer(x) }")
    ops = {node.op for node in autograd(found.entries["run"]).nodes}
    assert "custom_grad" not in ops and "sigmoid" not in ops and "log" in ops


def test_a_wrong_gradient_is_found_by_a_test_block() -> None:
    text = """
fn right(x: f32[..]) -> f32[..] = x * x * x grad g { return 3.0 * g * x * x }
fn wrong(x: f32[..]) -> f32[..] = x * x * x grad g { return 2.0 * g * x * x }
test "right" { assert grad_error(right, f32(arange(5)) + 0.5) < 1e-4 }
test "wrong" { assert grad_error(wrong, f32(arange(5)) + 0.5) < 1e-4 }
"""
    (found,) = problems(text)
    assert found == "WG0403 5 this assertion does not hold"


def test_a_model_with_custom_gradients_trains(tmp_path: Path, target: str) -> None:
    path = tmp_path / "model.wg"
    path.write_text(MODEL, encoding="utf-8")
    x = np.random.default_rng(4).normal(size=(4, 3)).astype(np.float32)
    with wgcc_runtime.load(build(path, tmp_path / "b"), device=target) as model:
        run = Session(run_passes(program(MODEL)), model.params(), model.state())
        found, expected = model.call("gradients", x=x), run.call("gradients", {"x": x})
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, atol=1e-5, err_msg=name)
        for _ in range(3):
            loss = run.call("train", {"x": x})["value"]
            np.testing.assert_allclose(model.train(x=x)["value"], loss, rtol=1e-4)


def test_rows_are_still_computed_alone() -> None:
    text = """
dim B = 4
model M {
  remat fc: Linear[3, 2]
  entry run(x: f32[B, 3]) -> (y: f32[B, 2]) = softer(fc(x))
}
"""
    (rows,) = mark_rows(program(FUNCTIONS + text)).entries["run"].entry.rows
    assert dict(rows.outputs) == {"y": "rows"}, rows.why
