"""Adapters as PEFT stores them: `adapter_config.json` and `adapter_model.safetensors`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wgcc_runtime.adapters import Adapter, Factors
from wgcc_runtime.arrays import Array
from wgcc_runtime.errors import WgccError
from wgcc_runtime.replace_file import replace_file
from wgcc_runtime.weights import file_pieces, load_weights

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
MOST_CONFIG_BYTES = 1 << 20
# PEFT's names of layers -> ours.
LAYERS = {
    "self_attn.q_proj": "attn.wq",
    "self_attn.k_proj": "attn.wk",
    "self_attn.v_proj": "attn.wv",
    "self_attn.o_proj": "attn.wo",
    "mlp.gate_proj": "mlp.gate",
    "mlp.up_proj": "mlp.up",
    "mlp.down_proj": "mlp.down",
}
OURS = {ours: theirs for theirs, ours in LAYERS.items()}
TENSOR = re.compile(r"(?:.*\.)?layers\.(\d+)\.(\w+\.\w+)\.lora_([AB])(?:\.\w+)?\.weight$")
# What other kinds of adapters have, and nothing here computes.
UNSUPPORTED = ("use_dora", "modules_to_save", "layer_replication", "alora_invocation_tokens")


def read_peft(path: Path) -> Adapter:
    folder = path if path.is_dir() else path.parent
    config = _config(folder / CONFIG)
    file = folder / WEIGHTS if path.is_dir() else path
    return from_peft(load_weights(file)[0], config, str(path))


def from_peft(arrays: Mapping[str, Array], config: Mapping[str, Any], name: str) -> Adapter:
    """`config`: the content of adapter_config.json."""
    _check_config(config, name)
    parts: dict[str, dict[str, Array]] = {}
    for key, array in arrays.items():
        place, part = _place(key, name)
        parts.setdefault(place, {})[part] = array
    if not parts:
        raise WgccError("weights", f"{name} holds no factors", name)
    return Adapter({p: _factors(p, pair, config, name) for p, pair in parts.items()}, name)


def write_peft(adapter: Adapter, folder: Path, base: str) -> None:
    arrays, config = to_peft(adapter, base)
    text = json.dumps(config, indent=2, sort_keys=True) + "\n"
    try:
        folder.mkdir(exist_ok=True)
        replace_file(folder / WEIGHTS, file_pieces(arrays, {"format": "pt"}))
        replace_file(folder / CONFIG, text.encode())
    except OSError as error:
        raise WgccError(
            "weights", f"cannot write {folder}: {error.strerror}", str(folder)
        ) from None


def to_peft(adapter: Adapter, base: str) -> tuple[dict[str, Array], dict[str, Any]]:
    """The tensors and the configuration of both files."""
    arrays: dict[str, Array] = {}
    first = next(iter(adapter.layers.values()))
    for place, factors in adapter.layers.items():
        _, block, layer = place.split(".", 2)
        name = f"base_model.model.model.layers.{block}.{OURS[layer]}"
        # One rank and one scale are written for all layers.
        b = factors.b * np.float32(factors.scale / first.scale)
        arrays[f"{name}.lora_A.weight"] = np.ascontiguousarray(factors.a.T, np.float32)
        arrays[f"{name}.lora_B.weight"] = np.ascontiguousarray(b.T, np.float32)
    targets = sorted({OURS[place.split(".", 2)[2]].split(".")[1] for place in adapter.layers})
    return arrays, {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": first.rank,
        "lora_alpha": first.scale * first.rank,
        "target_modules": targets,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }


def _config(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            config = json.loads(file.read(MOST_CONFIG_BYTES))
    except OSError as error:
        text = f"cannot read {path}: {error.strerror}; PEFT writes it beside {WEIGHTS}"
        raise WgccError("weights", text, str(path)) from None
    except (ValueError, RecursionError) as error:
        raise WgccError("weights", f"{path} is no JSON: {error}", str(path)) from None
    if not isinstance(config, dict):
        raise WgccError("weights", f"{path} holds no object", str(path))
    return config


def _check_config(config: Mapping[str, Any], name: str) -> None:
    kind = config.get("peft_type")
    if kind != "LORA":
        raise WgccError("weights", f"{name} is an adapter of type {kind!r:.40}, not LORA", name)
    if config.get("bias", "none") != "none":
        raise WgccError("weights", f"{name} trains biases, which is not supported", name)
    for key in UNSUPPORTED:
        if config.get(key):
            raise WgccError("weights", f"{name} uses `{key}`, which is not supported", name)


def _place(key: str, name: str) -> tuple[str, str]:
    match = TENSOR.match(key)
    if match is None or match[2] not in LAYERS:
        known = ", ".join(layer.split(".")[1] for layer in LAYERS)
        text = f"{name} has a tensor `{key[:120]}`; factors of {known} are read"
        raise WgccError("weights", text, key)
    return f"blocks.{int(match[1])}.{LAYERS[match[2]]}", match[3]


def _factors(
    place: str, pair: Mapping[str, Array], config: Mapping[str, Any], name: str
) -> Factors:
    for part in "AB":
        if part not in pair:
            raise WgccError("weights", f"{name} lacks lora_{part} of `{place}`", place)
        if pair[part].ndim != 2:
            raise WgccError("shape", f"{name}: lora_{part} of `{place}` is no matrix", place)
    a, b = pair["A"].T, pair["B"].T
    rank, alpha = (_setting(config, *keys, place, name) for keys in _KEYS)
    if a.shape[1] != rank or b.shape[0] != rank:
        text = f"{name}: `{place}` has factors of rank {a.shape[1]} and {b.shape[0]}, not {rank:g}"
        raise WgccError("shape", f"{text} as {CONFIG} says", place)
    scale = alpha / math.sqrt(rank) if config.get("use_rslora") else alpha / rank
    return Factors(np.asarray(a, np.float32), np.asarray(b, np.float32), scale)


# The keys of a setting for all layers, and of those for some by their names.
_KEYS = (("r", "rank_pattern"), ("lora_alpha", "alpha_pattern"))


def _setting(config: Mapping[str, Any], key: str, pattern: str, place: str, name: str) -> float:
    _, block, layer = place.split(".", 2)
    module = f"model.layers.{block}.{OURS[layer]}"
    value, others = config.get(key, 8), config.get(pattern) or {}
    if not isinstance(others, dict):
        raise WgccError("weights", f"{name}: `{pattern}` is no object", pattern)
    for end, own in others.items():
        if module == end or module.endswith(f".{end}"):
            value = own
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
        raise WgccError("weights", f"{name}: `{key}` is {value!r:.40}, not a number above 0", key)
    return float(value)
