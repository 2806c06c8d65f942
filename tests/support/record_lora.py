"""Records 50 steps of LoRA on a small packed model in PyTorch: tests/recorded/lora.json.

    python tests/support/record_lora.py     with torch, gguf and numpy

The base is the dequantised GGUF file that `gguf_files.py` writes; corrections start with the values
that the bundle draws, which are part of the recording.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

from gguf_files import write_gguf
from lora_case import LENGTH, RANK, RATE, STEPS, rows_of, start_values

HEADS, KEY_HEADS, SIZE, THETA, EPS = 4, 2, 16, 5000.0, 1e-6


def main(target: str) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        types = {"default": "Q4_1", "token_embd": "Q8_0"}
        file = gguf.GGUFReader(write_gguf(Path(folder) / "m.gguf", "llama", types))
        weights = {t.name: _numbers(t) for t in file.tensors}
        starts = {name: torch.tensor(value) for name, value in start_values().items()}
    for value in starts.values():
        value.requires_grad_()
    optimizer = torch.optim.AdamW(list(starts.values()), lr=RATE, weight_decay=0.0)
    losses = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / 10)
        ids, targets = rows_of(step)
        scores = _scores(weights, starts, torch.tensor(ids[0]).long())
        loss = torch.nn.functional.cross_entropy(scores, torch.tensor(targets[0]).long())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(starts.values()), 1.0)
        optimizer.step()
        losses.append(loss.item())
    Path(target).write_text(json.dumps({"torch": torch.__version__, "losses": losses}) + "\n")


def _numbers(tensor: Any) -> Any:
    return torch.tensor(np.array(gguf.dequantize(tensor.data, tensor.tensor_type)))


def _scores(w: dict[str, Any], lora: dict[str, Any], ids: Any) -> Any:
    x = w["token_embd.weight"][ids]
    for block in range(2):
        name = f"blk.{block}."
        y = _norm(x, w[f"{name}attn_norm.weight"])
        x = x + _attention(w, lora, block, y)
        y = _norm(x, w[f"{name}ffn_norm.weight"])
        inner = torch.nn.functional.silu(y @ w[f"{name}ffn_gate.weight"].T)
        x = x + (inner * (y @ w[f"{name}ffn_up.weight"].T)) @ w[f"{name}ffn_down.weight"].T
    return _norm(x, w["output_norm.weight"]) @ w["token_embd.weight"].T


def _attention(w: dict[str, Any], lora: dict[str, Any], block: int, y: Any) -> Any:
    name = f"blk.{block}.attn_"
    q = y @ _halves(w[f"{name}q.weight"], HEADS).T + _correct(lora, block, "wq", y)
    k = y @ _halves(w[f"{name}k.weight"], KEY_HEADS).T
    v = y @ w[f"{name}v.weight"].T + _correct(lora, block, "wv", y)
    q, k = _rotate(_heads(q)), _rotate(_heads(k))
    k, v = (t.repeat_interleave(HEADS // KEY_HEADS, 0) for t in (k, _heads(v)))
    z = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return z.transpose(0, 1).reshape(LENGTH, -1) @ w[f"{name}output.weight"].T


def _correct(lora: dict[str, Any], block: int, layer: str, y: Any) -> Any:
    a, b = (lora[f"base.blocks.{block}.attn.{layer}.lora_{part}"] for part in "ab")
    # alpha / rank is 2.
    return 2.0 * (y @ a @ b)


def _halves(rows: Any, heads: int) -> Any:
    """The file has rows for rotations of neighbours; those of halves give the same scores."""
    return rows.reshape(heads, -1, 2, rows.shape[1]).transpose(1, 2).reshape(rows.shape)


def _heads(x: Any) -> Any:
    return x.reshape(LENGTH, -1, SIZE).transpose(0, 1)


def _rotate(x: Any) -> Any:
    angles = torch.arange(LENGTH)[:, None] * THETA ** (-2.0 * torch.arange(SIZE // 2) / SIZE)
    c, s = torch.cos(angles), torch.sin(angles)
    a, b = x[..., : SIZE // 2], x[..., SIZE // 2 :]
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def _norm(x: Any, weight: Any) -> Any:
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, EPS)


if __name__ == "__main__":
    main(*sys.argv[1:2] or [str(Path(__file__).parents[1] / "recorded" / "lora.json")])
    assert RANK
