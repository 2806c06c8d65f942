"""The case that LoRA on packed weights is compared with PyTorch by: rows and first values."""

from __future__ import annotations

from typing import Any

import numpy as np

STEPS, LENGTH, RANK, RATE = 50, 16, 4, 0.01
WIDTH, KEY_WIDTH, BLOCKS, VOCABULARY = 64, 32, 2, 320


def rows_of(step: int) -> tuple[Any, Any]:
    """Ids and targets of a step, some of which count for nothing."""
    rng = np.random.default_rng(step % 8)
    ids = rng.integers(0, VOCABULARY, (1, LENGTH + 1)).astype(np.int32)
    targets = ids[:, 1:].copy()
    targets[0, rng.integers(0, LENGTH, 4)] = -100
    return ids[:, :-1], targets


def start_values() -> dict[str, Any]:
    """Both factors are random, so that the first step has gradients of both."""
    rng, values = np.random.default_rng(7), {}
    for block in range(BLOCKS):
        for layer, outputs in (("wq", WIDTH), ("wv", KEY_WIDTH)):
            name = f"base.blocks.{block}.attn.{layer}.lora_"
            values[f"{name}a"] = rng.normal(0.0, 0.1, (WIDTH, RANK)).astype(np.float32)
            values[f"{name}b"] = rng.normal(0.0, 0.1, (RANK, outputs)).astype(np.float32)
    return values
