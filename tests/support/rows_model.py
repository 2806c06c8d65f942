"""A model whose entries take any number of rows, data for it, and what the entries must give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from wgcc.lazy_numpy import Array

MODEL = """
dim B = 8
model Net {
  body: Linear[3, 4]
  norm: BatchNorm[4]
  head: Linear[4, 2]
  optimizer opt: adam { lr = 1e-2 }
  fn f[N](x: f32[N, 3]) -> f32[N, 2] = x |> body |> norm |> tanh |> head
  entry train(x: f32[B, 3], label: i32[B]) -> (loss: f32) {
    loss = cross_entropy(f(x), label)
    minimize loss with opt
    return loss
  }
  entry predict(x: f32[B, 3], scale: f32) -> (y: f32[B, 2], best: i32[B], twice: f32[2 * B]) {
    y = scale * f(x)
    return y, argmax(y, axis = 1), reshape(y, [2 * B])
  }
  entry eval(x: f32[B, 3], label: i32[B])
    -> (loss: f32, right: i32, hits: f32, features: f32[4], size: f32) {
    y = f(x)
    hit = argmax(y, axis = 1) == label
    loss = cross_entropy(y, label) + 0.5 * mean(y ** 2) + 0.1
    return loss, sum(i32(hit)), sum(f32(hit)), mean(body(x), axis = 0), sum(head.w ** 2)
  }
  entry mixed(x: f32[B, 3]) -> (y: f32[B, 3]) = x - mean(x, axis = 0)
}
"""
SIZES = (1, 3, 5, 7, 13, 16, 21)


def write_model(folder: Path) -> Path:
    path = folder / "net.wg"
    path.write_text(MODEL, encoding="utf-8")
    return path


def data(rows: int) -> dict[str, Array]:
    draw = np.random.default_rng(rows)
    x = draw.normal(size=(rows, 3)).astype(np.float32)
    # One row that gives much more than the others.
    x[rows // 2] *= 100
    return {"x": x, "label": draw.integers(0, 2, rows).astype(np.int32)}


def expected(model: Any, given: dict[str, Array]) -> dict[str, dict[str, Array]]:
    """What the entries give for all rows at once, by the formulas of the model, in f64."""
    p = {name: value.astype(np.float64) for name, value in model.params().items()}
    x, label = given["x"].astype(np.float64), given["label"]
    features = x @ p["body.w"] + p["body.b"]
    y = np.tanh(features / np.sqrt(1 + 1e-5)) @ p["head.w"] + p["head.b"]
    log_p = y - np.log(np.exp(y).sum(1, keepdims=True))
    hits = (y.argmax(1) == label).sum()
    loss = -log_p[np.arange(len(x)), label].mean() + 0.5 * (y**2).mean() + 0.1
    return {
        "predict": {"y": 2 * y, "best": y.argmax(1), "twice": 2 * y.ravel()},
        "eval": {
            "loss": loss, "right": hits, "hits": hits,
            "features": features.mean(0), "size": (p["head.w"] ** 2).sum(),
        },
    }  # fmt: skip
