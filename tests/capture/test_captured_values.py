"""`capture`: values inside an entry, equal to numpy's on both adapters and on the twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wgcc
from wgcc import in_memory
from wgcc.evaluate import Session
from wgcc_runtime import WgccError
from wgcc_runtime.captured import Stats

Array = Any

BLOCKS = """
dim B = 3, T = 5, D = 8, V = 7

layer Attend[D] {
  qkv: Linear[D, 3 * D]
  fn forward[B, T](x: f32[B, T, D]) -> f32[B, T, D] {
    parts = rearrange(qkv(x), "B T (three H K) -> three B H T K", three = 3, H = 2)
    return rearrange(attention(parts[0], parts[1], parts[2], causal = true), "B H T K -> B T (H K)")
  }
}

layer Block[D] {
  norm: LayerNorm[D]
  attn: Attend[D]
  fn forward[B, T](x: f32[B, T, D]) -> f32[B, T, D] {
    h = x + attn(norm(x))
    return capture(tanh(h), "squashed")
  }
}

model Net {
  tok: Embedding[V, D]
  blocks[2]: Block[D]
  fn scores[B](ids: i32[B, T]) -> f32[B, T, V] {
    x = tok(ids)
    for block in blocks { x = block(x) }
    return x @ transpose(tok.w)
  }
  optimizer opt: adam { lr = 0.01 }
  entry train(ids: i32[B, T]) -> (loss: f32) {
    loss = cross_entropy(scores(ids), ids)
    minimize loss with opt
    return loss
  }
  entry predict(ids: i32[B, T]) -> (scores: f32[B, T, V]) = scores(ids)
}
"""
IDS = np.arange(15, dtype=np.int32).reshape(3, 5) % 7


def _compared(model: Any, entry: str, inputs: dict[str, Array]) -> dict[str, tuple[Array, Array]]:
    """Calls an entry; pairs of what the model captured and what numpy computes."""
    program = in_memory._result(model._request)[1].compiled.program
    values = {**model.params(), **model.state()}
    session = Session(program, values, values)
    model.call(entry, **inputs)
    wanted = session.call(entry, inputs)
    pairs = {}
    for name, shown in model.captured.items():
        kept = wanted.get(f"capture:{name}")
        if kept is None:
            kept = {**session.params, **session.state}[name]
        if isinstance(shown, Stats):
            shown = np.array([shown.mean, shown.deviation, shown.min, shown.max])
        pairs[name] = shown, np.reshape(kept, shown.shape)
    return pairs


def _assert_equal(pairs: dict[str, tuple[Array, Array]], names: set[str]) -> None:
    assert pairs.keys() == names
    for name, (got, wanted) in pairs.items():
        # f32 kernels against float64.
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-6, err_msg=name)


def test_values_gradients_parameters_and_moments_are_those_of_numpy(machine: Any) -> None:
    wanted = ["blocks.*.attn.weights", "*.norm", "blocks.0", "d.*.h", "d.tok.w", "tok.w"]
    model = wgcc.compile(BLOCKS, capture=[*wanted, "opt/opt/exp_avg/tok.w"], device=machine)
    names = {
        *(f"blocks.{i}.{n}" for i in (0, 1) for n in ("attn.weights", "norm", "squashed")),
        *("blocks.0", "d.blocks.0.h", "d.blocks.1.h", "d.tok.w", "tok.w", "opt/opt/exp_avg/tok.w"),
    }
    for _ in range(2):
        _assert_equal(_compared(model, "train", {"ids": IDS}), names)
    assert model.captured["blocks.0.attn.weights"].shape == (3, 2, 5, 5)


def test_statistics_are_those_of_numpy(machine: Any) -> None:
    stats = ["*.norm", "d.tok.w", "tok.w", "opt/opt/exp_avg/*", "*.squashed"]
    model = wgcc.compile(BLOCKS, capture=["blocks.1.norm"], capture_stats=stats, device=machine)
    pairs = _compared(model, "train", {"ids": IDS})
    assert {"blocks.0.norm", "blocks.0.squashed", "d.tok.w", "tok.w"} < pairs.keys()
    _assert_equal(pairs, set(pairs))
    shown = model.captured["tok.w"]
    after = model.parameters["tok.w"]
    histogram, edges = np.histogram(after, 32, (after.min(), after.max()))
    # An element at the edge of a bin may be rounded to either side.
    assert np.abs(shown.histogram.astype(int) - histogram).sum() <= 2
    np.testing.assert_allclose(shown.edges, edges, rtol=1e-6, atol=1e-6)
    assert (shown.size, shown.zeros, shown.nan, shown.infinite) == (56, 0, 0, 0)
    assert isinstance(model.captured["blocks.1.norm"], np.ndarray)


def test_statistics_count_what_is_not_finite(machine: Any) -> None:
    text = "model M { entry f(x: f32?[2, 6]) -> (y: f32[2, 6]) = x * 2.0 }"
    model = wgcc.compile(text, capture_stats=["y"], device=machine)
    x = np.array([[0, -0.0, np.nan, np.inf, -np.inf, 1], [3e30, -3e30, 1e30, 0.5, 0, -1]])
    model.f(x=x.astype(np.float32) / 2)
    stats = model.captured["y"]
    assert (stats.zeros, stats.nan, stats.infinite) == (3, 1, 2)
    assert stats.histogram.sum() == 9 and stats.histogram[[0, 31]].tolist() == [1, 1]
    np.testing.assert_allclose([stats.min, stats.max], [-3e30, 3e30], rtol=1e-6)
    model.f(x=np.array([[-1.5e38, 1.5e38, 0, 0, 0, 0]] * 2, np.float32))
    assert model.captured["y"].histogram[0] == 12  # its range is too large for f32
    model.f(x=np.full((2, 6), 7, np.float32))
    same = model.captured["y"]
    assert (same.mean, same.deviation, same.histogram[0]) == (14.0, 0.0, 12)
    model.f(x=np.full((2, 6), np.nan, np.float32))
    assert (model.captured["y"].mean, model.captured["y"].nan) == (0.0, 12)


ATTENTIONS = {
    "causal": ("2, 4, 6, 3", "2, 2, 6, 3", "causal = true"),
    "window": ("1, 2, 9, 4", "1, 2, 9, 4", "causal = true, window = 3"),
    "both_sides": ("1, 2, 5, 4", "1, 1, 8, 4", "window = 2"),
    "offset": ("1, 4, 1, 3", "1, 2, 7, 3", "causal = true, offset = 4"),
}


@pytest.mark.parametrize("form", ATTENTIONS)
def test_attention_has_its_weights(form: str) -> None:
    """The weights times the values are the result; no key that is hidden has one."""
    q, k, options = ATTENTIONS[form]
    text = (
        f"model M {{ entry f(q: f32[{q}], k: f32[{k}], v: f32[{k}]) -> (y: f32[{q}]) "
        f"= attention(q, k, v, {options}) }}"
    )
    model = wgcc.compile(text, capture=["weights"], device="wasm")
    random = np.random.default_rng(1)
    arrays = [random.normal(size=eval(f"({s})")).astype(np.float32) for s in (q, k, k)]
    y = model.f(*arrays)["y"]
    weights = model.captured["weights"]
    values = np.repeat(arrays[2], weights.shape[1] // arrays[2].shape[1], axis=1)
    np.testing.assert_allclose(weights @ values, y, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    if "causal" in options:
        first = 4 if "offset" in options else 0
        keys, rows = np.arange(weights.shape[3]), np.arange(weights.shape[2]) + first
        assert not weights[..., keys[None] > rows[:, None]].any()


LOOP = """
dim B = 2, T = 4, D = 3
model M {
  cell: Linear[D, D]
  fn step(h: f32[B, D], x: f32[B, D]) -> (f32[B, D], f32[B, D]) {
    inner = capture(cell(x) + h, "inner")
    h = tanh(inner)
    return h, h
  }
  optimizer opt: sgd { lr = 0.1 }
  entry train(xs: f32[T, B, D]) -> (loss: f32) {
    last, hs = scan(step, zeros(f32[B, D]), xs)
    loss = mean(square(last)) + mean(hs)
    minimize loss with opt
    return loss
  }
}
"""


def test_rounds_of_a_loop_are_stacked(machine: Any) -> None:
    capture = ["h", "cell", "d.h", "d.cell.w"]
    model = wgcc.compile(LOOP, capture=capture, capture_stats=["last"], device=machine)
    xs = np.random.default_rng(0).normal(size=(4, 2, 3)).astype(np.float32)
    pairs = _compared(model, "train", {"xs": xs})
    _assert_equal(pairs, {"inner", "h", "cell", "d.h", "d.cell.w", "last"})
    assert model.captured["inner"].shape == (4, 2, 3)
    np.testing.assert_allclose(model.captured["h"], np.tanh(model.captured["inner"]), rtol=1e-4)


def test_calls_in_parts_join_what_they_captured(machine: Any) -> None:
    model = wgcc.compile(BLOCKS, capture=["blocks.0", "tok.w"], capture_stats=["*.norm"],
                         entries=["predict"], device=machine)  # fmt: skip
    ids = np.arange(40, dtype=np.int32).reshape(8, 5) % 7
    model.predict(ids=ids)
    joined = model.captured["blocks.0"]
    parts = [model.predict(ids=np.roll(ids, -i, 0)[:3]) and model.captured["blocks.0"][0]
             for i in range(8)]  # fmt: skip
    np.testing.assert_array_equal(joined, np.stack(parts))
    model.predict(ids=ids)
    assert model.captured["tok.w"].shape == (7, 8)
    with pytest.raises(WgccError, match="call it with exactly 3 rows"):
        model.captured["blocks.0.norm"]
