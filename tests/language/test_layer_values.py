"""Whole layers as values: copied, mixed, their parameters in a loop, passed to functions."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import wgcc_runtime
from building import build
from elaborated import problems, program
from wgcc.evaluate import Session
from wgcc.passes.pipeline import run_passes

MODEL = """
layer Net[D](proj: layer = Linear[D, D](bias = false)) {
  fc: proj
  norm: BatchNorm[D]
  blocks[2]: Linear[D, D]
  state calls: i32 = 0
  fn forward(x: f32[.., D], last: layer = blocks[1]) -> f32[.., D] {
    calls := calls + 1
    return x |> fc |> norm |> blocks[0] |> tanh |> last
  }
}
fn twice(f: layer, x: f32[..]) -> f32[..] = f(f(x))
fn through(f: fn, x: f32[..]) -> f32[..] = f(x)

model Copies {
  net: Net[3]
  frozen target: Net[3]
  slow[2]: Linear[3, 3]
  optimizer opt: sgd { lr = 0.1 }

  entry train(x: f32[4, 3]) -> (loss: f32, norm: f32) {
    before = net.fc.w
    slow[0] := net.blocks[0]
    loss = mse(twice(net, x), stop_grad(through(target, x)) + 1.0)
    minimize loss with opt
    target := lerp(target, net, 0.25)
    norm = sum(square(net.fc.w - before))
    for i, p in params(net.blocks) {
      p := p * 0.5
      norm = norm + (i + 1) * sum(square(p))
    }
    return loss, norm
  }
  entry sync() { target := net; slow := net.blocks }
  entry swap() {
    slow[0] := net.blocks[1]
    net.blocks[1] := net.blocks[0]
    net.blocks[0] := slow[0]
  }
}
"""


def test_copies_agree_with_the_reference(tmp_path: Path, target: str) -> None:
    path = tmp_path / "copies.wg"
    path.write_text(MODEL, encoding="utf-8")
    x = np.random.default_rng(2).normal(size=(4, 3)).astype(np.float32)
    with wgcc_runtime.load(build(path, tmp_path / "b"), device=target) as model:
        session = Session(run_passes(program(MODEL)), model.params(), model.state())
        for entry in ("train", "swap", "train", "sync", "train"):
            given = {"x": x} if entry == "train" else {}
            found, expected = getattr(model, entry)(**given), session.call(entry, given)
            for name, number in expected.items():
                np.testing.assert_allclose(found[name], number, rtol=1e-4)
            for name, array in model.params().items():
                np.testing.assert_allclose(array, session.params[name], atol=1e-5, err_msg=name)
            for name, array in model.state().items():
                np.testing.assert_allclose(array, session.state[name], atol=1e-5, err_msg=name)
        # Whole numbers are copied by `lerp`, too.
        assert model.state()["target.calls"] == model.state()["net.calls"] == 6


def test_a_copied_layer_has_the_same_contents() -> None:
    session = Session(program(MODEL), {**_random(MODEL)})
    session.call("sync")
    own = {name: array for name, array in session.params.items() if name.startswith("net.")}
    assert len(own) == 7
    for name, array in own.items():
        np.testing.assert_array_equal(session.params[name.replace("net", "target", 1)], array)
    np.testing.assert_array_equal(session.params["slow.1.w"], session.params["net.blocks.1.w"])


def _random(text: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    found = program(text).params.values()
    return {tensor.name: rng.normal(size=tensor.type.shape) for tensor in found}


def test_lists_grow_and_lerp_takes_tensors() -> None:
    assert (
        problems("""
test "lists" {
  xs = []
  for i in 3 { xs = append(xs, ones(f32[2]) * f32(i)) }
  xs = xs.append(zeros(f32[2])) + [ones(f32[2])]
  assert close(sum(concat(xs, axis = 0)), 8.0)
  assert close(lerp(ones(f32[2]), 3.0 * ones(f32[2]), 0.25), 1.5 * ones(f32[2]))
  assert lerp(2.0, 4.0, 0.5) == 3.0
}
""")
        == []
    )


def test_a_parameter_with_a_copy_of_another_is_not_trained_with_it() -> None:
    found = run_passes(
        program("""
model M {
  param w: f32[3] = 1.0
  param old: f32[3] = 5.0
  optimizer opt: sgd { lr = 0.1 }
  entry train(x: f32[3]) -> (loss: f32) {
    old := w
    loss = sum(w * x)
    minimize loss with opt
    return loss
  }
}
""")
    )
    session = Session(found, {"w": np.ones(3), "old": np.full(3, 5.0)})
    session.call("train", {"x": np.ones(3)})
    np.testing.assert_allclose(session.params["w"], 0.9)
    np.testing.assert_array_equal(session.params["old"], np.ones(3))


BY_HAND = """
model M {
  net: Net[3]
  optimizer opt: sgd { lr = 0.1 }
  entry by_hand(x: f32[4, 3]) -> (loss: f32) {
    loss = mean(square(net(x)))
    for p in params(net) { p := p - 0.1 * grad(loss, p) }
    return loss
  }
  entry at_once(x: f32[4, 3]) -> (loss: f32) {
    loss = mean(square(net(x)))
    gradients = grad(loss, params(net))
    for i, p in params(net) { p := lerp(p, p - gradients[i], 0.1) }
    return loss
  }
  entry by_optimizer(x: f32[4, 3]) -> (loss: f32) {
    loss = mean(square(net(x)))
    minimize loss with opt
    return loss
  }
}
"""


def test_a_loop_over_parameters_trains_like_an_optimizer() -> None:
    text = MODEL[: MODEL.index("fn twice")] + BY_HAND
    x, start = np.random.default_rng(1).normal(size=(4, 3)), _random(text)
    done, found = run_passes(program(text)), {}
    for entry in done.entries:
        session = Session(done, start)
        losses = [float(session.call(entry, {"x": x})["loss"]) for _ in range(3)]
        found[entry] = losses
    np.testing.assert_allclose(found["by_hand"], found["by_optimizer"])
    np.testing.assert_allclose(found["at_once"], found["by_optimizer"])
    assert found["by_hand"][-1] < found["by_hand"][0]
