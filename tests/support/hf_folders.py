"""Tiny models of Hugging Face's transformers as folders, with weights drawn by name."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

IDS = [5, 77, 3, 60, 12, 12, 41, 9, 70, 2, 33, 18]
_SIZES = {
    "vocab_size": 80, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0,
}  # fmt: skip
_LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16, "rope_theta": 500.0,
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", **_SIZES, "tie_word_embeddings": True},
    "llama long": {"model_type": "llama", **_SIZES, "rope_parameters": _LLAMA3, "head_dim": 16},
    "llama biases": {
        "model_type": "llama", **_SIZES, "attention_bias": True, "mlp_bias": True,
        "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0},
    },
    "mistral": {"model_type": "mistral", **_SIZES, "sliding_window": 5},
    "qwen2": {"model_type": "qwen2", **_SIZES, "use_sliding_window": False},
    "qwen3": {"model_type": "qwen3", **_SIZES, "head_dim": 16},
    "gemma": {"model_type": "gemma", **_SIZES, "head_dim": 16},
    "phi": {"model_type": "phi", **_SIZES, "partial_rotary_factor": 0.5},
    "phi3": {"model_type": "phi3", **_SIZES, "sliding_window": 7},
    "gpt2": {
        "model_type": "gpt2", "vocab_size": 80, "n_embd": 32, "n_head": 4, "n_layer": 2,
        "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0,
    },
}  # fmt: skip


def write_folder(
    path: Path, config: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], shards: int = 1
) -> Path:
    """`shapes` by the library's names of tensors."""
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    is_tied = config.get("tie_word_embeddings", config["model_type"] == "gpt2")
    names = [name for name in shapes if not (is_tied and name == "lm_head.weight")]
    tensors = {name: _drawn(name, shapes[name]) for name in names}
    if shards == 1:
        save_file(tensors, path / "model.safetensors", {"format": "pt"})
        return path
    index = {name: f"model-{at % shards + 1:05}.safetensors" for at, name in enumerate(tensors)}
    for file in set(index.values()):
        save_file({n: a for n, a in tensors.items() if index[n] == file}, path / file)
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return path


def _drawn(name: str, shape: Sequence[int]) -> Any:
    numbers = np.random.default_rng(zlib.crc32(name.encode())).normal(0, 0.2, shape)
    is_scale = len(shape) == 1 and name.endswith("weight")
    return (numbers + is_scale).astype(np.float32)
