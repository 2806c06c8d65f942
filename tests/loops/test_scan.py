"""`scan` of the language: what it means, against loops that are unrolled and against numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elaborated import program
from wgcc.compiler import compile_file
from wgcc.evaluate import OutOfRangeError, Session
from wgcc.importing.uses import uses
from wgcc.ir.loops import LoopNode
from wgcc.passes.pipeline import run_passes

Array = np.ndarray[Any, Any]

# One cell, run by `scan` and by a loop that is unrolled.
LSTM = """
dim B = 2, T = 5, D = 3, H = 4
layer Cell[D, H] {
  wx: Linear[D, 4 * H]
  wh: Linear[H, 4 * H](bias = false)
  drop: Dropout(0.0)
  fn forward(s: (f32[B, H], f32[B, H]), x: f32[B, D]) -> ((f32[B, H], f32[B, H]), f32[B, H]) {
    h, c = s
    i, f, g, o = chunk(wx(x) + wh(h), 4, axis = -1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    h = drop(sigmoid(o) * tanh(c))
    return (h, c), h
  }
}
model M {
  cell: Cell[D, H]
  out: Linear[H, 1]
  optimizer opt: sgd { lr = 0.5 }
  fn by_scan(xs: f32[B, T, D]) -> (f32[B, T, H], f32[B, H]) {
    z = zeros(f32[B, H])
    (h, c), ys = scan(cell, (z, z), xs, axis = 1)
    return ys, c
  }
  fn by_for(xs: f32[B, T, D]) -> (f32[B, T, H], f32[B, H]) {
    s = (zeros(f32[B, H]), zeros(f32[B, H]))
    ys = []
    for t in 0..T {
      s, y = cell(s, xs[:, t])
      ys = append(ys, reshape(y, [B, 1, H]))
    }
    h, c = s
    return concat(ys, axis = 1), c
  }
  entry run(xs: f32[B, T, D]) -> (ys: f32[B, T, H], c: f32[B, H]) { return LOOP(xs) }
  entry train(xs: f32[B, T, D], y: f32[B, T, 1]) -> (loss: f32) {
    ys, c = LOOP(xs)
    loss = mse(out(ys), y) + mean(square(c))
    minimize loss with opt
    return loss
  }
}
"""


def session(text: str) -> Session:
    """A program after all passes, with drawn parameters."""
    done = run_passes(program(text), check=True)
    random = np.random.default_rng(1)
    params = {t.name: random.uniform(-1, 1, t.type.shape) for t in done.params.values()}
    return Session(done, params, {"rng/seed": np.uint32(3), "rng/step": np.uint32(0)})


def test_an_lstm_is_the_same_as_unrolled_and_learns_the_same() -> None:
    random = np.random.default_rng(0)
    xs, y = random.normal(size=(2, 5, 3)), random.normal(size=(2, 5, 1))
    looped, unrolled = (session(LSTM.replace("LOOP", f"by_{how}")) for how in ("scan", "for"))
    for name, array in looped.call("run", {"xs": xs}).items():
        np.testing.assert_allclose(array, unrolled.call("run", {"xs": xs})[name], rtol=1e-9)
    for _ in range(3):
        losses = [one.call("train", {"xs": xs, "y": y})["loss"] for one in (looped, unrolled)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-9)
    for name, array in looped.params.items():
        np.testing.assert_allclose(array, unrolled.params[name], rtol=1e-7, atol=1e-12)


def test_products_of_inputs_and_outputs_are_outside_the_loop() -> None:
    graph = run_passes(program(LSTM.replace("LOOP", "by_scan"))).entries["train"]
    forward, backward = (LoopNode(node) for node in graph.nodes if node.op == "repeat")
    for loop in (forward, backward):
        assert [node.op for node in loop.body.nodes].count("matmul") == 1
    assert all(carry.shape == (2, 4) for carry in backward.carries)


def test_as_many_nodes_for_any_number_of_rounds() -> None:
    counts = set()
    for rounds in (8, 1024):
        text = LSTM.replace("LOOP", "by_scan").replace("T = 5", f"T = {rounds}")
        graph = run_passes(program(text)).entries["train"]
        counts.add((len(graph.nodes), *(len(loop.body.nodes) for loop in _loops(graph))))
    assert len(counts) == 1


def _loops(graph: Any) -> list[LoopNode]:
    return [LoopNode(node) for node in graph.nodes if node.op == "repeat"]


FORMS = """
dim T = 4, D = 3
fn add_up(total: f32[D], x: f32[D]) -> (f32[D], f32[D]) { return total + x, total }
fn pairs(s: (f32, (i32, bool)), x: (f32[D], i32)) -> ((f32, (i32, bool)), (f32, i32)) {
  total, (count, odd) = s
  v, n = x
  return (total + sum(v), (count + n, not odd)), (total, count * n)
}
fn steps(y: f32, t: i32) -> (f32, f32) { return y * 2.0 + f32(t), f32(t) }
fn rows(s: f32[D], x: f32[T, D]) -> (f32[D], f32[D]) {
  s, ys = scan(add_up, s, x, reverse = true)
  return s * 0.5, ys[0]
}
model M {
  entry along(x: f32[T, D], y: f32[D, T]) -> (a: f32[D], b: f32[T, D], c: f32[D], d: f32[D, T]) {
    a, b = scan(add_up, zeros(f32[D]), x)
    c, d = scan(add_up, zeros(f32[D]), y, axis = -1, reverse = true)
    return a, b, c, d
  }
  entry tuples(x: f32[T, D], n: i32[T]) -> (a: f32, b: i32, c: bool, d: f32[T], e: i32[T]) {
    (a, (b, c)), (d, e) = scan(pairs, (0.0, (0, false)), (x, n))
    return a, b, c, d, e
  }
  entry numbers() -> (a: f32, b: f32, c: f32, d: f32, ts: f32[T]) {
    a, _ = scan(steps, 1.0, arange(T))
    b, _ = scan(steps, 1.0, 0..T, reverse = true)
    c, ts = scan(steps, 1.0, T)
    d, _ = scan(steps, 1.0, 1..9 step 2)
    return a, b, c, d, ts
  }
  entry nested(x: f32[2, T, D]) -> (s: f32[D], ys: f32[2, D]) {
    return scan(rows, zeros(f32[D]), x)
  }
}
"""


def test_axes_tuples_numbers_and_nesting() -> None:
    random = np.random.default_rng(2)
    one = session(FORMS)
    x, n = random.normal(size=(4, 3)), random.integers(0, 9, 4)
    found = one.call("along", {"x": x, "y": x.T})
    np.testing.assert_allclose(found["a"], x.sum(0))
    np.testing.assert_allclose(found["b"], np.cumsum(x, 0) - x)
    np.testing.assert_allclose(found["c"], x.sum(0))
    np.testing.assert_allclose(found["d"], (np.cumsum(x[::-1], 0)[::-1] - x).T, atol=1e-12)
    found = one.call("tuples", {"x": x, "n": n})
    counts = np.cumsum(n) - n
    np.testing.assert_allclose(found["a"], x.sum())
    assert (found["b"], found["c"]) == (n.sum(), False)
    np.testing.assert_allclose(found["d"], np.cumsum(x.sum(1)) - x.sum(1), atol=1e-12)
    np.testing.assert_array_equal(found["e"], counts * n)
    found = one.call("numbers")
    want = {"a": [0, 1, 2, 3], "b": [3, 2, 1, 0], "c": [0, 1, 2, 3], "d": [1, 3, 5, 7]}
    for name, steps in want.items():
        y = 1.0
        for t in steps:
            y = y * 2 + t
        assert found[name] == y
    np.testing.assert_array_equal(found["ts"], range(4))
    x = random.normal(size=(2, 4, 3))
    found = one.call("nested", {"x": x})
    np.testing.assert_allclose(found["s"], (x[0].sum(0) / 2 + x[1].sum(0)) / 2)
    np.testing.assert_allclose(found["ys"][1], x[0].sum(0) / 2 + x[1, 1:].sum(0))


EFFECTS = """
dim T = 6, D = 50
layer Noisy {
  state calls: i32 = 0
  state last: f32[D] = 0.0
  drop: Dropout(0.5)
  param w: f32[D] = 1.0
  fn forward(s: f32[D], t: i32) -> (f32[D], (f32[D], i32)) {
    calls := calls + 1
    x = randn(f32[D])
    last := x
    return s + x, (x, calls)
  }
  fn dropped(s: f32[D], t: i32) -> (f32[D], f32[D]) {
    y = drop(w * s)
    return s, y
  }
  fn pulled(s: f32[D], t: i32) -> (f32[D], f32) {
    energy = sum(square(s - 3.0))
    return s - 0.25 * grad(energy, s), energy
  }
  fn inner(s: f32[D], t: i32) -> (f32[D], f32[D]) { return s, randn(f32[D]) }
  fn outer(s: f32[D], t: i32) -> (f32[D], f32[T, D]) { return scan(inner, s, T) }
}
model M {
  noisy: Noisy
  optimizer opt: sgd { lr = 1.0 }
  entry run() -> (s: f32[D], xs: f32[T, D], calls: i32[T]) {
    s, (xs, calls) = scan(noisy, zeros(f32[D]), T)
    return s, xs, calls
  }
  entry train() -> (loss: f32, ys: f32[T, D]) {
    _, ys = scan(noisy.dropped, ones(f32[D]), T)
    loss = sum(ys)
    minimize loss with opt
    return loss, ys
  }
  entry pull() -> (s: f32[D], energies: f32[T]) { return scan(noisy.pulled, ones(f32[D]), T) }
  entry grid() -> (xs: f32[T, T, D]) {
    _, xs = scan(noisy.outer, zeros(f32[D]), T)
    return xs
  }
}
"""


def test_state_random_numbers_dropout_and_gradients_in_a_body() -> None:
    one = session(EFFECTS)
    first, second = one.call("run"), one.call("run")
    np.testing.assert_array_equal(first["calls"], range(1, 7))
    np.testing.assert_array_equal(second["calls"], range(7, 13))
    assert one.state["noisy.calls"] == 12
    np.testing.assert_array_equal(one.state["noisy.last"], second["xs"][-1])
    draws = np.concatenate([first["xs"], second["xs"], *one.call("grid")["xs"]])
    assert len(np.unique(draws)) > draws.size - 5, "every round and every call draws others"
    np.testing.assert_allclose(first["s"], first["xs"].sum(0), rtol=1e-6)
    before = one.params["noisy.w"]
    ys = one.call("train")["ys"] / before
    assert set(np.unique(ys.round(6))) == {0.0, 2.0}
    assert len(np.unique(ys, axis=0)) == 6, "every round drops others"
    np.testing.assert_allclose(before - one.params["noisy.w"], ys.sum(0), rtol=1e-6)
    found = one.call("pull")
    np.testing.assert_allclose(found["s"], 3 - 2 * 0.5**6)
    np.testing.assert_allclose(found["energies"], 50 * (2 * 0.5 ** np.arange(6)) ** 2)


LOOKUPS = """
dim T = 4, V = 7, D = 3
layer Body {
  table: Embedding[V, D]
  head: Linear[D, V]
  fn read(s: f32[D], id: i32) -> (f32[D], f32[D]) {
    s = s + table(id)
    return s, s
  }
  fn decode(token: i32, t: i32) -> (i32, i32) {
    token = argmax(head(table(token)))
    return token, token
  }
  fn count(at: i32, x: i32) -> (i32, f32[D]) { return at + x, table(at) }
}
model M {
  body: Body
  entry read(ids: i32[T]) -> (s: f32[D]) {
    s, _ = scan(body.read, zeros(f32[D]), ids)
    return s
  }
  entry decode(first: i32) -> (tokens: i32[T]) {
    _, tokens = scan(body.decode, first, T)
    return tokens
  }
  entry count(start: i32, steps: i32[T]) -> (ys: f32[T, D]) {
    _, ys = scan(body.count, start, steps)
    return ys
  }
}
"""


def test_lookups_in_a_body_are_checked_outside_where_that_is_enough() -> None:
    entries = program(LOOKUPS).entries
    assert entries["read"].entry.ranges == {"ids": (0, 6, None)}
    assert entries["decode"].entry.ranges == {"first": (0, 6, None)}
    assert entries["read"].entry.range_guard is None is entries["decode"].entry.range_guard
    one = session(LOOKUPS)
    one.call("count", {"start": 1, "steps": np.array([2, 3, -6, 9])})
    line = 1 + LOOKUPS[: LOOKUPS.index("table(at)")].count("\n")
    for steps in ([9, -9, 1, 1], [2, 3, -7, 9]):
        with pytest.raises(OutOfRangeError, match=rf"outside 0 to 6 \(test.wg:{line}\)"):
            one.call("count", {"start": 1, "steps": np.array(steps)})


def test_one_round() -> None:
    random = np.random.default_rng(0)
    batch = {"xs": random.normal(size=(2, 1, 3)), "y": random.normal(size=(2, 1, 1))}
    text = LSTM.replace("T = 5", "T = 1")
    looped, unrolled = (session(text.replace("LOOP", f"by_{how}")) for how in ("scan", "for"))
    for _ in range(2):
        losses = [one.call("train", batch)["loss"] for one in (looped, unrolled)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-9)


def test_a_budget_of_memory_computes_values_of_rounds_again(tmp_path: Path) -> None:
    """The state of each round is stored, and neither the gates nor the products of inputs."""
    text = LSTM.replace("LOOP", "by_scan").replace("T = 5", "T = 256").replace("H = 4", "H = 64")
    path = tmp_path / "lstm.wg"
    path.write_text(text.replace("B = 2", "B = 16"), encoding="utf-8")
    free = compile_file(path, twin=False)
    bytes_ = sum(buffer.words for buffer in free.schedule.buffers) * 4
    tight = compile_file(path, twin=False, memory=bytes_ // 2)
    assert (free.remat_parts, tight.remat_parts > 1) == (1, True)
    loops = [_loops(one.program.entries["train"])[0] for one in (free, tight)]
    stored = [sum(stack.type.size for stack in loop.stacks) for loop in loops]
    assert stored[1] * 2 < stored[0]


def test_weights_in_a_loop_are_imported_as_outside() -> None:
    """What a parameter is used for decides how weights of other frameworks are stored."""
    looped, unrolled = (uses(program(LSTM.replace("LOOP", f"by_{how}"))) for how in ("scan", "for"))
    assert looped == unrolled and looped["cell.wh.w"].operation == "product"


def test_a_remat_layer_in_a_loop_stores_its_arguments_only() -> None:
    random = np.random.default_rng(0)
    batch = {"xs": random.normal(size=(2, 5, 3)), "y": random.normal(size=(2, 5, 1))}
    text = LSTM.replace("LOOP", "by_scan")
    plain, again = session(text), session(text.replace("  cell: Cell", "  remat cell: Cell"))
    for _ in range(2):
        losses = [one.call("train", batch)["loss"] for one in (plain, again)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-9)
    stacks = [_loops(one.program.entries["train"])[0].stacks for one in (plain, again)]
    assert (len(stacks[0]), len(stacks[1])) == (7, 3)


INSIDE = """
dim T = 3, B = 2, D = 4
model M {
  param w: f32[D, D] ~ normal(0.0, 1.0)
  fn slopes(s: f32, x: f32[B, D]) -> (f32, (f32[B, D], f32[D, D])) {
    energy = sum(square(tanh(x @ w)))
    return s + energy, grad(energy, (x, w))
  }
  entry run(xs: f32[T, B, D]) -> (s: f32, dx: f32[T, B, D], dw: f32[T, D, D]) {
    s, (dx, dw) = scan(slopes, 0.0, xs)
    return s, dx, dw
  }
}
"""


def test_gradients_in_a_body_of_what_is_taken_out_of_the_loop() -> None:
    """The product of each input could be computed before the loop, but not its gradient."""
    one, xs = session(INSIDE), np.random.default_rng(4).normal(size=(3, 2, 4))
    found, w = one.call("run", {"xs": xs}), one.params["w"]
    y = np.tanh(xs @ w)
    inner = 2 * y * (1 - y**2)
    np.testing.assert_allclose(found["s"], (y**2).sum(), rtol=1e-9)
    np.testing.assert_allclose(found["dx"], inner @ w.T, rtol=1e-9)
    np.testing.assert_allclose(found["dw"], xs.transpose(0, 2, 1) @ inner, rtol=1e-9)


CUSTOM = """
fn clipped(x: f32[3]) -> f32[3] { return x * x } grad g { return 10.0 * g }
fn body(h: f32[3], x: f32[3]) -> (f32[3], f32[3]) {
  h = clipped(h) + x
  return h, h
}
model M {
  entry run(h: f32[3], xs: f32[2, 3]) -> (d: f32[3], e: f32[2, 3]) {
    last, _ = scan(body, h, xs)
    return grad(sum(last), (h, xs))
  }
}
"""


def test_functions_with_a_gradient_of_their_own_in_a_body() -> None:
    found = session(CUSTOM).call("run", {"h": np.ones(3), "xs": np.ones((2, 3))})
    np.testing.assert_array_equal(found["d"], [100] * 3)
    np.testing.assert_array_equal(found["e"], [[10] * 3, [1] * 3])
