"""Weights and ids of GPT-2 small by a formula, and what PyTorch computes with them.

`python tests/support/gpt2_numbers.py` with torch 2.13.0 writes tests/recorded/gpt2_recorded.json.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np

from adapters import ROOT

Array = np.ndarray[Any, Any]

LAYERS, WIDTH, HEADS, VOCAB, POSITIONS, LENGTH = 12, 768, 12, 50257, 1024, 64
RECORDED = ROOT / "tests" / "recorded" / "gpt2_recorded.json"
# Parameters whose gradients are compared: one of each kind.
WATCHED = (
    "tok.w", "pos.w", "blocks.0.attn.qkv.w", "blocks.5.attn.out.b", "blocks.11.up.w",
    "blocks.11.norm1.g", "blocks.6.down.w", "norm.b",
)  # fmt: skip


def shapes() -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {"tok.w": (VOCAB, WIDTH), "pos.w": (POSITIONS, WIDTH)}
    for i in range(LAYERS):
        linears = {"attn.qkv": (1, 3), "attn.out": (1, 1), "up": (1, 4), "down": (4, 1)}
        for name, (rows, cols) in linears.items():
            found[f"blocks.{i}.{name}.w"] = rows * WIDTH, cols * WIDTH
            found[f"blocks.{i}.{name}.b"] = (cols * WIDTH,)
        for name in ("norm1", "norm2"):
            found |= {f"blocks.{i}.{name}.{part}": (WIDTH,) for part in "gb"}
    return found | {"norm.g": (WIDTH,), "norm.b": (WIDTH,)}


def weights() -> dict[str, Array]:
    return {name: weight(name, shape) for name, shape in shapes().items()}


def weight(name: str, shape: tuple[int, ...]) -> Array:
    """Evenly distributed with a standard deviation of 0.02, gains around 1."""
    values = (_hashed(name, int(np.prod(shape))) - np.float32(0.5)) * np.float32(0.07)
    return (values + np.float32(name.endswith(".g"))).reshape(shape)


def ids() -> tuple[Array, Array]:
    """The ids of a text, and of the text one further."""
    text = (_hashed("text", LENGTH + 1) * VOCAB).astype(np.int32)
    return text[None, :-1], text[None, 1:]


def _hashed(name: str, count: int) -> Array:
    """Numbers from 0 up to 1: a hash of name and position."""
    words = np.arange(count, dtype=np.uint32)
    words = words * np.uint32(2654435761) + np.uint32(zlib.crc32(name.encode()))
    for shift, factor in ((16, 2246822519), (13, 3266489917)):
        words ^= words >> np.uint32(shift)
        words *= np.uint32(factor)
    return (words >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)


def record() -> None:
    import torch
    from torch.nn import functional as f

    w = {name: torch.from_numpy(array).requires_grad_() for name, array in weights().items()}

    def linear(x: Any, name: str) -> Any:
        return x @ w[f"{name}.w"] + w[f"{name}.b"]

    def norm(x: Any, name: str) -> Any:
        return f.layer_norm(x, (WIDTH,), w[f"{name}.g"], w[f"{name}.b"], 1e-5)

    def heads(x: Any) -> Any:
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    inputs, labels = (torch.from_numpy(array).long() for array in ids())
    x = w["tok.w"][inputs] + w["pos.w"][:LENGTH]
    for i in range(LAYERS):
        q, k, v = linear(norm(x, f"blocks.{i}.norm1"), f"blocks.{i}.attn.qkv").chunk(3, -1)
        y = f.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=True)
        x = x + linear(y.transpose(1, 2).flatten(2), f"blocks.{i}.attn.out")
        up = linear(norm(x, f"blocks.{i}.norm2"), f"blocks.{i}.up")
        x = x + linear(f.gelu(up, approximate="tanh"), f"blocks.{i}.down")
    scores = norm(x, "norm") @ w["tok.w"].T
    loss = f.cross_entropy(scores.flatten(0, 1), labels.flatten())
    loss.backward()  # type: ignore[no-untyped-call]
    norms = {name: float(tensor.grad.double().norm()) for name, tensor in w.items()}
    found = {
        "torch": torch.__version__.partition("+")[0],
        "loss": loss.item(),
        "norm": sum(n * n for n in norms.values()) ** 0.5,
        "norms": {name: norms[name] for name in WATCHED},
    }
    RECORDED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
