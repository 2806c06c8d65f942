"""Records a PyTorch training run of a Mamba-2 block whose recurrence is written out step by step.

Run by hand (`python tests/curves/record_mamba2.py`, needs PyTorch) when mamba2.wg changes.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from record import TOKEN_OPTIMIZERS, Arrays, Params, record
from record_mamba import VOCABULARY, batches, causal_conv, rms_norm
from torch import Tensor
from torch.nn import functional

SHAPE = (4, 20)
WIDTH, INNER, HEADS, STATES, WINDOW = 16, 32, 4, 5, 4
MIXED = INNER + 2 * STATES


def main() -> None:
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    rng = np.random.default_rng(20240609)
    record("mamba2", params(rng), batches(rng, SHAPE), mamba2_loss, TOKEN_OPTIMIZERS)


def params(rng: np.random.Generator) -> Arrays:
    def linear(inputs: int, outputs: int) -> np.ndarray:
        return rng.uniform(-1, 1, (inputs, outputs)) / math.sqrt(inputs)

    return {
        "tok.w": rng.normal(0, 0.3, (VOCABULARY, WIDTH)),
        "norm.g": rng.uniform(0.8, 1.2, WIDTH),
        "mix.in_proj.w": linear(WIDTH, INNER + MIXED + HEADS),
        "mix.conv_w": rng.uniform(-0.5, 0.5, (WINDOW, MIXED)),
        "mix.conv_b": rng.uniform(-0.1, 0.1, MIXED),
        "mix.dt_b": rng.uniform(-3, -1, HEADS),
        "mix.a_log": np.log(np.arange(HEADS) + 1) + rng.uniform(-0.1, 0.1, HEADS),
        "mix.skip": rng.uniform(0.8, 1.2, HEADS),
        "mix.norm.g": rng.uniform(0.8, 1.2, INNER),
        "mix.out_proj.w": linear(INNER, WIDTH),
        "last.g": rng.uniform(0.8, 1.2, WIDTH),
    }


def mamba2_loss(p: Params, batch: Params) -> Tensor:
    x = p["tok.w"][batch["ids"].long()]
    x = x + mamba2(p, rms_norm(x, p["norm.g"]))
    scores = rms_norm(x, p["last.g"]) @ p["tok.w"].T
    labels = batch["labels"].long().flatten()
    return functional.cross_entropy(scores.flatten(0, 1), labels, ignore_index=-1)


def mamba2(p: Params, x: Tensor) -> Tensor:
    gate, u, dt = (x @ p["mix.in_proj.w"]).split([INNER, MIXED, HEADS], dim=-1)
    u = functional.silu(causal_conv(u, p["mix.conv_w"]) + p["mix.conv_b"])
    u, b, c = u.split([INNER, STATES, STATES], dim=-1)
    u = u.unflatten(-1, (HEADS, -1))
    dt = functional.softplus(dt + p["mix.dt_b"])
    y = recurrence(-dt * torch.exp(p["mix.a_log"]), dt[..., None] * u, b, c)
    y = (y + p["mix.skip"][:, None] * u).flatten(-2)
    return rms_norm(y * functional.silu(gate), p["mix.norm.g"]) @ p["mix.out_proj.w"]


def recurrence(rate: Tensor, v: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """h_t = exp(rate_t) h_{t-1} + v_t b_tᵀ, y_t = h_t c_t for each head."""
    h = torch.zeros(*v.shape[:1], *v.shape[2:], b.shape[-1], dtype=v.dtype)
    found = []
    for t in range(v.shape[1]):
        h = torch.exp(rate[:, t, :, None, None]) * h + v[:, t, ..., None] * b[:, t, None, None]
        found.append((h * c[:, t, None, None]).sum(-1))
    return torch.stack(found, dim=1)


if __name__ == "__main__":
    main()
