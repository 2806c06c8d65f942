"""Records a PyTorch training run of a GPT with RMSNorm, rotary positions, grouped queries, SwiGLU.

Run by hand (`python tests/curves/record_gpt.py`, needs PyTorch) when gpt.wg changes.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from record import BATCHES, TOKEN_OPTIMIZERS, Arrays, Params, record
from torch import Tensor
from torch.nn import functional

SHAPE = (4, 19)
VOCABULARY, WIDTH, HEADS, KEY_HEADS, BLOCKS, INNER = 23, 24, 6, 2, 2, 40
SIZE = WIDTH // HEADS


def main() -> None:
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    rng = np.random.default_rng(20240609)
    record("gpt", params(rng), batches(rng), gpt_loss, TOKEN_OPTIMIZERS)


def params(rng: np.random.Generator) -> Arrays:
    def linear(inputs: int, outputs: int) -> np.ndarray:
        return rng.uniform(-1, 1, (inputs, outputs)) / math.sqrt(inputs)

    found = {"tok.w": rng.normal(0, 0.3, (VOCABULARY, WIDTH))}
    for i in range(BLOCKS):
        found |= {
            f"blocks.{i}.norm1.g": rng.uniform(0.8, 1.2, WIDTH),
            f"blocks.{i}.attn.wq.w": linear(WIDTH, WIDTH),
            f"blocks.{i}.attn.wk.w": linear(WIDTH, KEY_HEADS * SIZE),
            f"blocks.{i}.attn.wv.w": linear(WIDTH, KEY_HEADS * SIZE),
            f"blocks.{i}.attn.wo.w": linear(WIDTH, WIDTH),
            f"blocks.{i}.norm2.g": rng.uniform(0.8, 1.2, WIDTH),
            f"blocks.{i}.mlp.gate.w": linear(WIDTH, INNER),
            f"blocks.{i}.mlp.up.w": linear(WIDTH, INNER),
            f"blocks.{i}.mlp.down.w": linear(INNER, WIDTH),
        }
    return {**found, "norm.g": rng.uniform(0.8, 1.2, WIDTH)}


def batches(rng: np.random.Generator) -> Arrays:
    """Tokens whose successor depends on the one three positions before; some labels ignored."""
    ids = rng.integers(0, VOCABULARY, (BATCHES, *SHAPE))
    before = np.concatenate([np.zeros_like(ids[..., :3]), ids[..., :-3]], axis=-1)
    labels = (2 * before + 5) % VOCABULARY
    noise = rng.random(ids.shape)
    labels = np.where(noise < 0.1, rng.integers(0, VOCABULARY, ids.shape), labels)
    labels = np.where(noise > 0.9, -1, labels)
    return {"ids": ids.astype(np.int32), "labels": labels.astype(np.int32)}


def gpt_loss(p: Params, batch: Params) -> Tensor:
    x = p["tok.w"][batch["ids"].long()]
    for i in range(BLOCKS):
        block = {k.removeprefix(f"blocks.{i}."): v for k, v in p.items()}
        x = x + attention(block, rms_norm(x, block["norm1.g"]))
        h = rms_norm(x, block["norm2.g"])
        gate = functional.silu(h @ block["mlp.gate.w"])
        x = x + (gate * (h @ block["mlp.up.w"])) @ block["mlp.down.w"]
    scores = rms_norm(x, p["norm.g"]) @ p["tok.w"].T
    labels = batch["labels"].long().flatten()
    return functional.cross_entropy(scores.flatten(0, 1), labels, ignore_index=-1)


def attention(p: Params, x: Tensor) -> Tensor:
    sequences, times, _ = x.shape

    def heads(name: str) -> Tensor:
        return (x @ p[f"attn.{name}.w"]).view(sequences, times, -1, SIZE).transpose(1, 2)

    q, k, v = rope(heads("wq")), rope(heads("wk")), heads("wv")
    # Neighbouring heads of q share one of k and v.
    k, v = (part.repeat_interleave(HEADS // KEY_HEADS, dim=1) for part in (k, v))
    y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).reshape(sequences, times, WIDTH) @ p["attn.wo.w"]


def rope(x: Tensor) -> Tensor:
    # Tables in float64, as wgcc has them.
    freq = 10000.0 ** (-2 * torch.arange(SIZE // 2, dtype=torch.float64) / SIZE)
    angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * torch.cat([freq, freq])
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    turned = torch.cat([-x[..., SIZE // 2 :], x[..., : SIZE // 2]], dim=-1)
    return x * cos + turned * sin


def rms_norm(x: Tensor, g: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * g


if __name__ == "__main__":
    main()
