"""Models and data for tests of several workers, and what is compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

import wgcc_runtime
from building import build
from wgcc_runtime.distributed.agreement import Wants
from wgcc_runtime.distributed.worker import Worker

MLP = """
dim B = 32
model Mlp {
  a: Linear[6, 24]
  b: Linear[24, 3]
  optimizer opt: adamw { lr = 0.003; clip_norm = 1.0; ema = 0.9 }
  entry train(x: f32[B, 6], y: i32[B]) -> (loss: f32, acc: f32) {
    z = b(gelu(a(x)))
    loss = cross_entropy(z, y)
    minimize loss with opt
    return loss, accuracy(z, y)
  }
}
"""
CNN = """
dim B = 32
model Cnn {
  conv: Conv2d[2, 6](k = 3, pad = 1)
  out: Linear[54, 3]
  optimizer opt: sgd { lr = 0.05; momentum = 0.9 }
  entry train(x: f32[B, 6, 6, 2], y: i32[B]) -> (loss: f32) {
    h = max_pool2d(relu(conv(x)), 2)
    loss = cross_entropy(out(reshape(h, [B, 54])), y)
    minimize loss with opt
    return loss
  }
}
"""
# A bias of keys would have a gradient of rounding errors alone, which Adam makes large.
GPT = """
dim B = 16
model Gpt {
  tok: Embedding[11, 16](std = 0.02)
  pos: Embedding[8, 16](std = 0.02)
  blocks[2]: Block[16]
  norm: LayerNorm[16]
  out: Linear[16, 11]
  optimizer opt: adam { lr = 0.001; eps = 1e-4; clip_norm = 1.0 }
  entry train(x: i32[B, 8], y: i32[B, 8]) -> (loss: f32) {
    h = tok(x) + pos(arange(8))
    for block in blocks { h = block(h) }
    loss = cross_entropy(reshape(out(norm(h)), [B * 8, 11]), reshape(y, [B * 8]))
    minimize loss with opt
    return loss
  }
}
layer Block[D] {
  n1: LayerNorm[D]
  n2: LayerNorm[D]
  qkv: Linear[D, 3 * D](bias = false)
  proj: Linear[D, D]
  up: Linear[D, 2 * D]
  down: Linear[2 * D, D]
  fn forward(x: f32[B, 8, D]) -> f32[B, 8, D] {
    parts = rearrange(qkv(n1(x)), "b t (n h d) -> n b h t d", n = 3, h = 2)
    y = attention(parts[0], parts[1], parts[2], causal = true)
    h = x + proj(rearrange(y, "b h t d -> b t (h d)"))
    return h + down(gelu(up(n2(h))))
  }
}
"""
# State, random numbers, an average, and a loss that a large input makes infinite.
NOISY = """
dim B = 4
model Noisy {
  seed = 5
  a: Linear[6, 8]
  norm: BatchNorm[8]
  b: Linear[8, 3]
  optimizer opt: adam { lr = 0.01; ema = 0.9; accumulate = 2 }
  entry train(x: f32[B, 6], y: i32[B]) -> (loss: f32) {
    loss = cross_entropy(b(dropout(norm(relu(a(x))), 0.3)), y)
    minimize loss with opt
    return loss
  }
}
"""
# Name: source, rows of a batch for one worker of one, for one of four.
MODELS = {"mlp": (MLP, 32, 8), "cnn": (CNN, 32, 8), "gpt": (GPT, 16, 4)}
STEPS = 50


def data_for(name: str, rows: int = 256) -> dict[str, Any]:
    random = np.random.default_rng(3)
    if name == "gpt":
        text = random.integers(0, 11, (rows, 9)).astype(np.int32)
        return {"x": text[:, :-1].copy(), "y": text[:, 1:].copy()}
    shape = (rows, 6, 6, 2) if name == "cnn" else (rows, 6)
    x = random.standard_normal(shape).astype(np.float32)
    return {"x": x, "y": (x.reshape(rows, -1)[:, 0] > 0).astype(np.int32) + 1}


def make(folder: Path, name: str, text: str, batch: int) -> Path:
    source = folder / f"{name}.wg"
    source.write_text(text, encoding="utf-8")
    bundle = build(source, folder / f"{name}{batch}", B=batch)
    save_file(data_for(name), folder / f"{name}.safetensors")
    return bundle


def assert_close(found: Path, expected: Path, tolerance: float) -> None:
    """The losses of two runs, and every parameter relative to its norm.

    Moments are left out: gradients near zero are differences, whose rounding errors are larger.
    """
    one, other = load_file(found), load_file(expected)
    assert one.keys() == other.keys()
    for name, value in other.items():
        difference = np.linalg.norm(one[name].astype(np.float64) - value)
        size = np.linalg.norm(value.astype(np.float64))
        assert name.startswith("opt/") or difference <= tolerance * max(size, 1e-6), (
            name,
            difference / size,
        )
    for first, second in zip(losses(found), losses(expected), strict=True):
        assert abs(first - second) <= tolerance * second, (first, second)


def losses(checkpoint: Path) -> list[float]:
    lines = checkpoint.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) > 4
    return [json.loads(line)["loss"] for line in lines]


def same_bits(one: Path, other: Path) -> bool:
    first, second = load_file(one), load_file(other)
    return {n: v.tobytes() for n, v in first.items()} == {n: v.tobytes() for n, v in second.items()}


def parameters(values: Mapping[str, Any]) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in values.items()}


def mixed_by_hand(bundle: Path, steps: list[int]) -> dict[str, Any]:
    """A round of two workers, the first ahead; of all batches in turn each takes its first."""
    values = []
    for rank in range(2):
        with wgcc_runtime.load(bundle, device="wasm", threads=1, seed=3) as model:
            worker = Worker(model, "train", data_for("noisy"), 3)
            worker.assign(rank)
            for place in range(rank, rank + 2 * steps[rank], 2):
                worker.local_steps([place], Wants(), lambda: False)
            values.append({**model.params(), **model.state()})
    return {name: _mixed(name, [v[name] for v in values], steps) for name in values[0]}


def _mixed(name: str, values: list[Any], steps: list[int]) -> Any:
    if values[0].dtype != np.float32 or "/acc/" in name:
        return values[0]
    parts = [v.astype(np.float64) * (n / sum(steps)) for v, n in zip(values, steps, strict=True)]
    return (parts[0] + parts[1]).astype(np.float32)
