"""A small model, the data of two clients, and federated training computed without Flower."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import wgcc_runtime
from building import build

# With state that is averaged, too. The entry `eval` is left out of one bundle.
MODEL = """
dim B = 8
model Waves {
  a: Linear[3, 12]
  norm: BatchNorm[12]
  b: Linear[12, 1]
  optimizer opt: adam { lr = 0.02; clip_norm = 1.0 }
  entry train(x: f32[B, 3], y: f32[B, 1]) -> (loss: f32) {
    loss = mse(b(norm(tanh(a(x)))), y)
    minimize loss with opt
    return loss
  }
EVAL
}
"""
EVAL = """
  entry eval(x: f32[B, 3], y: f32[B, 1]) -> (error: f32) {
    h = (tanh(a(x)) - norm.run_mean) / sqrt(norm.run_var + 1e-5)
    return mse(b(h * norm.g + norm.b), y)
  }
"""
ROWS = (24, 40)
SEED = 3


def make(folder: Path, name: str = "waves", eval: str = EVAL) -> Path:
    source = folder / f"{name}.wg"
    source.write_text(MODEL.replace("EVAL", eval), encoding="utf-8")
    return build(source, folder / name)


def rows_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a client, whose number is in the node's configuration."""
    number = int(config["partition-id"])
    x = np.random.default_rng(number).uniform(-1, 1, (ROWS[number], 3)).astype(np.float32)
    return {"x": x, "y": np.sin(3 * x.sum(1, keepdims=True)).astype(np.float32)}


def federated_by_hand(bundle: Path, rounds: int, epochs: int) -> dict[str, Any]:
    """FedAvg with `fit` alone: means weighted by rows, in f64, rounded to f32 once a round."""
    with wgcc_runtime.load(bundle, device="wasm", threads=1, seed=SEED) as model:
        means = _sent(model)
        for number in range(1, rounds + 1):
            found = []
            for client in range(2):
                model.reset(SEED + number)
                model.load_params(means, strict=False)
                model.fit(rows_of({"partition-id": client}), epochs=epochs, seed=SEED + number)
                found.append(_sent(model))
            means = {name: _mean([one[name] for one in found]) for name in means}
        return means


def _sent(model: wgcc_runtime.Model) -> dict[str, Any]:
    running = ("norm.run_mean", "norm.run_var")
    return {**model.params(), **{name: model.state()[name] for name in running}}


def _mean(arrays: list[Any]) -> Any:
    # The sum of two numbers does not depend on their order.
    parts = [a.astype(np.float64) * (n / sum(ROWS)) for a, n in zip(arrays, ROWS, strict=True)]
    return (parts[0] + parts[1]).astype(np.float32)
