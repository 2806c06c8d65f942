"""Records a PyTorch training run of a Mamba block whose recurrence is written out step by step.

Run by hand (`python tests/curves/record_mamba.py`, needs PyTorch) when mamba.wg changes.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from record import BATCHES, TOKEN_OPTIMIZERS, Arrays, Params, record
from torch import Tensor
from torch.nn import functional

SHAPE = (4, 21)
VOCABULARY, WIDTH, INNER, STATES, RANK, WINDOW = 23, 16, 32, 5, 3, 4


def main() -> None:
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    rng = np.random.default_rng(20240608)
    record("mamba", params(rng), batches(rng, SHAPE), mamba_loss, TOKEN_OPTIMIZERS)


def params(rng: np.random.Generator) -> Arrays:
    def linear(inputs: int, outputs: int) -> np.ndarray:
        return rng.uniform(-1, 1, (inputs, outputs)) / math.sqrt(inputs)

    return {
        "tok.w": rng.normal(0, 0.3, (VOCABULARY, WIDTH)),
        "norm.g": rng.uniform(0.8, 1.2, WIDTH),
        "mix.in_proj.w": linear(WIDTH, 2 * INNER),
        "mix.conv_w": rng.uniform(-0.5, 0.5, (WINDOW, INNER)),
        "mix.conv_b": rng.uniform(-0.1, 0.1, INNER),
        "mix.x_proj.w": linear(INNER, RANK + 2 * STATES),
        "mix.dt_proj.w": linear(RANK, INNER),
        "mix.dt_proj.b": rng.uniform(-3, -1, INNER),
        "mix.a_log": np.log(np.arange(STATES) + 1) + rng.uniform(-0.1, 0.1, (INNER, STATES)),
        "mix.skip": rng.uniform(0.8, 1.2, INNER),
        "mix.out_proj.w": linear(INNER, WIDTH),
        "last.g": rng.uniform(0.8, 1.2, WIDTH),
    }


def batches(rng: np.random.Generator, shape: tuple[int, int]) -> Arrays:
    """Tokens whose successor depends on the last two (the sum of them), some labels ignored."""
    ids = rng.integers(0, VOCABULARY, (BATCHES, *shape))
    before = np.concatenate([np.zeros_like(ids[..., :1]), ids[..., :-1]], axis=-1)
    labels = (ids + before + 5) % VOCABULARY
    noise = rng.random(ids.shape)
    labels = np.where(noise < 0.1, rng.integers(0, VOCABULARY, ids.shape), labels)
    labels = np.where(noise > 0.9, -1, labels)
    return {"ids": ids.astype(np.int32), "labels": labels.astype(np.int32)}


def mamba_loss(p: Params, batch: Params) -> Tensor:
    x = p["tok.w"][batch["ids"].long()]
    x = x + mamba(p, rms_norm(x, p["norm.g"]))
    scores = rms_norm(x, p["last.g"]) @ p["tok.w"].T
    labels = batch["labels"].long().flatten()
    return functional.cross_entropy(scores.flatten(0, 1), labels, ignore_index=-1)


def mamba(p: Params, x: Tensor) -> Tensor:
    u, gate = (x @ p["mix.in_proj.w"]).chunk(2, dim=-1)
    u = functional.silu(causal_conv(u, p["mix.conv_w"]) + p["mix.conv_b"])
    dt, b, c = (u @ p["mix.x_proj.w"]).split([RANK, STATES, STATES], dim=-1)
    dt = functional.softplus(dt @ p["mix.dt_proj.w"] + p["mix.dt_proj.b"])
    y = selective_scan(u, dt, -torch.exp(p["mix.a_log"]), b, c) + u * p["mix.skip"]
    return (y * functional.silu(gate)) @ p["mix.out_proj.w"]


def causal_conv(u: Tensor, weights: Tensor) -> Tensor:
    size, times = len(weights), u.shape[1]
    padded = functional.pad(u, (0, 0, size - 1, 0))
    return sum(padded[:, w : w + times] * weights[w] for w in range(size))


def selective_scan(u: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    h = torch.zeros(u.shape[0], *a.shape, dtype=u.dtype)
    found = []
    for t in range(u.shape[1]):
        inflow = (dt[:, t] * u[:, t])[:, :, None] * b[:, t, None]
        h = torch.exp(dt[:, t, :, None] * a) * h + inflow
        found.append((h * c[:, t, None]).sum(-1))
    return torch.stack(found, dim=1)


def rms_norm(x: Tensor, g: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * g


if __name__ == "__main__":
    main()
