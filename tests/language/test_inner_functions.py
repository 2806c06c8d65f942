"""Functions inside others see the locals of the function around them, also as bodies of loops."""

from __future__ import annotations

import random

import numpy as np
import pytest

import wgcc
from elaborated import problems, program
from wgcc.evaluate import Session
from wgcc.passes.pipeline import run_passes


def test_it_sees_the_locals_as_they_are_where_it_is_defined() -> None:
    text = """
fn outer(x: f32[..]) -> f32[..] {
  k = 2.0
  fn inner(y: f32[..]) = k * y + x
  fn twice(y: f32[..]) -> f32[..] {
    k = 3.0
    return inner(inner(y)) + 0.0 * k
  }
  k = 100.0
  return twice(x) + 0.0 * k
}
test "closures" { assert close(outer(3.0), 21.0) }
"""
    assert problems(text) == []


def test_gradients_reach_the_locals_that_a_loop_uses() -> None:
    text = """
test "captured" {
  m = 2.0 * ones(f32[3])
  fn add(total: f32[3], x: f32[3]) = (total + m * x, total)
  final, _ = scan(add, zeros(f32[3]), ones(f32[5, 3]))
  assert close(grad(sum(final), m), 5.0 * ones(f32[3]))
}
"""
    assert problems(text) == []


def test_members_state_and_sizes_of_its_layer_are_visible() -> None:
    text = """
layer Count[D] {
  state calls: f32[D] = 0.0
  w: Linear[D, D]
  fn forward(x: f32[D]) -> f32[D] {
    fn more(x: f32[D]) {
      calls := calls + x
      return w(calls)
    }
    return more(x) + more(x)
  }
}
test "state" {
  c = Count[3]()
  x = ones(f32[3])
  assert close(c(x), c.w(x) + c.w(2.0 * x))
  assert close(c.calls, 2.0 * x)
}
"""
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fn f(x: f32) { fn g(y: f32) = x + y\n return x }", "WG0906 1 nothing uses `g`"),
        ("fn f(x: f32) { fn g(y: f32) = g(y)\n return g(x) }", "WG0801 1 `g` calls itself"),
        ("fn f(x: f32) { y = g(x)\n fn g(y: f32) = y\n return y }", "WG0201 1 unknown name `g`"),
        (
            "fn f(x: f32[3]) { k = x * x\n fn g(y: f32[3]) = k * y grad h { return h * k }\n"
            " return g(x) }\nmodel M { entry run(x: f32[3]) -> (y: f32[3]) = f(x) }",
            "WG0316 2 the gradient of `g` leaves out a local from outside",
        ),
    ],
)
def test_mistakes(text: str, expected: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith(expected)


def random_pair(seed: int) -> tuple[str, str]:
    """A loop whose body uses locals, and the same with these in its state."""
    chance = random.Random(seed)
    names = [f"k{i}" for i in range(chance.randint(1, 4))]
    made = {
        name: chance.choice(("w * {}", "tanh(w + x * {})", "x * {}", "sin({} * w)")).format(
            chance.choice(("0.5", "2.0", *names[:i], "w"))
        )
        for i, name in enumerate(names)
    }
    terms = [f"{n} * {chance.choice(('h', 'x', '0.3'))}" for n in chance.choices(names, k=3)]
    reverse = chance.choice(("", ", reverse = true"))
    update = f"h = tanh({' + '.join(terms)} + 0.5 * x) + 0.1 * h"
    result = f"h * {chance.choice(names)}"
    locals_ = "\n".join(f"    {name} = {value}" for name, value in made.items())
    kinds, held = ", ".join("f32[3]" for _ in names), ", ".join(names)
    inner = f"""{locals_}
    fn step(h: f32[3], x: f32[3]) {{
      {update}
      return h, {result}
    }}
    h, ys = scan(step, x, xs{reverse})"""
    carried = f"""{locals_}
    (h, {held}), ys = scan(step, (x, {held}), xs{reverse})"""
    outside = f"""fn step(state: (f32[3], {kinds}), x: f32[3]) {{
  h, {held} = state
  {update}
  return (h, {held}), {result}
}}
"""
    model = """model M {{
  param w: f32[3] = 0.7
  entry run(x: f32[3], xs: f32[5, 3]) -> (loss: f32, dx: f32[3], dw: f32[3], dxs: f32[5, 3]) {{
{}
    loss = sum(h * h) + sum(ys * sin(ys))
    dx, dw, dxs = grad(loss, (x, w, xs))
    return loss, dx, dw, dxs
  }}
}}
"""
    return model.format(inner), outside + model.format(carried)


def inputs(seed: int) -> dict[str, np.ndarray]:
    chance = np.random.default_rng(seed)
    shapes = {"x": (3,), "xs": (5, 3)}
    return {name: chance.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("seed", range(12))
def test_random_closures_compute_what_carried_state_does(seed: int) -> None:
    given = inputs(seed)
    results = []
    for text in random_pair(seed):
        done = run_passes(program(text))
        results.append(Session(done, {}).call("run", given))
    for name, expected in results[1].items():
        # In double precision, but sums may be in another order.
        assert np.allclose(results[0][name], expected, rtol=1e-9, atol=1e-12), (seed, name)


@pytest.mark.parametrize("device", ["wasm", "llvmpipe"])
def test_kernels_of_random_closures_agree_with_numpy(device: str) -> None:
    for seed in (3, 4):
        text = random_pair(seed)[0]
        expected = Session(run_passes(program(text)), {}).call("run", inputs(seed))
        results = wgcc.compile(text, device=device).run(**inputs(seed))
        for name, array in expected.items():
            assert np.allclose(results[name], array, rtol=1e-4, atol=1e-5), (seed, name)
