"""Joins of any number of computed parts: kernels bind at most 8 tensors, models need not know."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from adapters import NAMES, request_device
from building import TWIN
from random_models.judge import judge
from wgcc.schedule.kernel import MAX_BINDINGS

DENSENET = """
dim B = 2, G = 2
layer Dense[I] {
  norm: BatchNorm[I]
  conv: Conv2d[I, G](k = 3, pad = 1, bias = false)
  fn forward(x: f32[B, 3, 3, I]) -> f32[B, 3, 3, G] = x |> norm |> relu |> conv
}
model Net {
  layers[i in L]: Dense[(i + 1) * G]
  head: Linear[(L + 1) * G, 3]
  optimizer opt: sgd { lr = 1e-2 }
  entry train(x: f32[B, 3, 3, G], label: i32[B]) -> (loss: f32) {
    all = x
    for dense in layers { all = concat([all, dense(all)], axis = 3) }
    loss = cross_entropy(head(mean(mean(all, axis = 1), axis = 1)), label)
    minimize loss with opt
    return loss
  }
}
"""
RNN = """
dim B = 3, D = 4
model Rnn {
  w: Linear[D, D]
  u: Linear[D, D]
  optimizer opt: adam { lr = 1e-2 }
  fn outputs(x: f32[B, T, D]) -> f32[B, T, D] {
    h = tanh(u(x[:, 0]))
    ys = h[:, new]
    for t in 1..T {
      h = tanh(w(h) + u(x[:, t]))
      ys = concat([ys, h[:, new]], axis = 1)
    }
    return ys
  }
  entry f(x: f32[B, T, D]) -> (ys: f32[B, T, D]) = outputs(x)
  entry train(x: f32[B, T, D], y: f32[B, T, D]) -> (loss: f32) {
    loss = mse(outputs(x), y)
    minimize loss with opt
    return loss
  }
}
"""
VITERBI = """
dim B = 3, K = 5
model Viterbi {
  param trans: f32[K, K] ~ normal(0.0, 0.5)
  entry decode(e: f32[B, T, K]) -> (path: i32[B, T], best: f32[B]) {
    score = e[:, 0]
    back = argmax(score[:, new] + trans[new], axis = 1)[:, new]
    for t in 1..T {
      total = score[:, :, new] + trans[new] + e[:, t][:, new]
      back = concat([back, argmax(total, axis = 1)[:, new]], axis = 1)
      score = max(total, axis = 1)
    }
    at = argmax(score, axis = 1)
    path = at[:, new]
    for t in reversed(1..T) {
      at = sum(where(one_hot(at, K) > 0.5, back[:, t], i32(zeros(f32[B, K]))), axis = 1)
      path = concat([at[:, new], path], axis = 1)
    }
    return path, max(score, axis = 1)
  }
}
"""
# Of each letter many parts are joined: products, values of one element, cheap expressions.
PARTS = {
    "a": "tanh(x * {i}.5) @ w",
    "b": "sin(x + {i}.5) @ w",
    "s": "sum(x ** {i})[new]",
    "c": "w * {i}.25",
}
# Each way to read a join is one kernel family; joins of more parts are cut before.
READERS = {
    "products": ("a @ transpose(b)", 5),
    "attention": ("attention(a[new], b[new], (a * b)[new])", 5),
    "running sums": ("cumsum(concat([a, b], axis = 0), axis = 0)", 5),
    "lookups": ("gather(a, clamp(i32(x[0] * 3.0), 0, 4))", 9),
    "values of one element": ("s * concat([s[1:], s[:1]], axis = 0)", 9),
    "expressions": ("exp(-c * c) @ w", 9),
}
MODEL = """
model M {{
  param w: f32[3, 3] ~ normal(0.0, 0.5)
{entries}
}}
"""
ENTRY = """
  fn joined_{number}(x: f32[2, 3]) {{
{lines}
    return {use}
  }}
  entry f_{number}(x: f32[2, 3]) -> (y: f32, d_x: f32[2, 3], d_w: f32[3, 3]) {{
    y = mean(joined_{number}(x) ** 2)
    return y, grad(y, x), grad(y, w)
  }}
"""


@pytest.fixture(scope="module")
def devices() -> dict[str, Any]:
    return {**{name: request_device(name) for name in NAMES}, TWIN: TWIN}


def readers() -> str:
    entries = []
    for number, (use, count) in enumerate(READERS.values()):
        letters = [letter for letter in PARTS if re.search(rf"\b{letter}\b", use)]
        lines = "\n".join(_joined(letter, count) for letter in letters)
        entries.append(ENTRY.format(number=number, lines=lines, use=use))
    return MODEL.format(entries="".join(entries))


def _joined(letter: str, count: int) -> str:
    parts = ", ".join(PARTS[letter].format(i=i) for i in range(count))
    return f"    {letter} = concat([{parts}], axis = 0)"


# The numbers of layers and steps that kernels are compiled for, and those that the twin runs.
MODELS = {
    "densenet": (DENSENET, {"L": 8}, {"L": 24}),
    "rnn": (RNN, {"T": 8}, {"T": 24}),
    "viterbi": (VITERBI, {"T": 12}, {"T": 12}),
    "readers": (readers(), {}, {}),
}


@pytest.mark.parametrize(("text", "few", "many"), MODELS.values(), ids=MODELS)
def test_many_parts(
    text: str, few: dict[str, int], many: dict[str, int], devices: dict[str, Any], tmp_path: Path
) -> None:
    run(text, few, devices, tmp_path / "few")
    if many != few:
        run(text, many, {TWIN: TWIN}, tmp_path / "many")


def run(text: str, sizes: dict[str, int], devices: dict[str, Any], folder: Path) -> None:
    folder.mkdir()
    path = folder / "model.wg"
    dims = "".join(f"dim {name} = {size}\n" for name, size in sizes.items())
    path.write_text(dims + text, encoding="utf-8")
    compiled = judge(path, devices, folder / "bundle")
    assert max(len(d.regions) for d in compiled.schedule.dispatches) <= MAX_BINDINGS
