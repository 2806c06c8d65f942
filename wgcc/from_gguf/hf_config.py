"""`config.json` of Hugging Face's transformers as the metadata that a GGUF file has.

A setting that changes what is computed, and that nothing here computes, is refused by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wgcc.errors import WgError

# GGUF's name of an architecture, by the library's.
ARCHITECTURES = {
    "llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma": "gemma",
    "phi3": "phi3", "phi": "phi2", "gpt2": "gpt2",
}  # fmt: skip
# The names of a fact in different versions; the first that is there counts.
FACTS = {
    "attention.head_count": ("num_attention_heads", "n_head"),
    "attention.head_count_kv": ("num_key_value_heads",),
    "attention.key_length": ("head_dim",),
    "embedding_length": ("hidden_size", "n_embd"),
    "feed_forward_length": ("intermediate_size", "n_inner"),
    "block_count": ("num_hidden_layers", "n_layer"),
    "context_length": ("max_position_embeddings", "n_positions"),
    "attention.layer_norm_rms_epsilon": ("rms_norm_eps",),
    "attention.layer_norm_epsilon": ("layer_norm_eps", "layer_norm_epsilon"),
    "activation": ("hidden_activation", "hidden_act", "activation_function"),
}
# Values that settings have where they are left out of the file, in any version of the library.
DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma": {"head_dim": 256},
    "gpt2": {"activation_function": "gelu_new"},
}
# Settings, and the values with which nothing special is computed.
ORDINARY: dict[str, tuple[Any, ...]] = {
    "scale_attn_by_inverse_layer_idx": (False, None),
    "scale_attn_weights": (True, None),
    "add_cross_attention": (False, None),
    "qk_layernorm": (False, None),
    "is_encoder_decoder": (False, None),
    "quantization_config": (None,),
    "use_bidirectional_attention": (False, None),
}


@dataclass(frozen=True, slots=True)
class Config:
    """The file at `path`, as it was read."""

    path: Path
    values: dict[str, Any]

    def get(self, name: str, default: Any = None) -> Any:
        """Null counts as left out."""
        value = self.values.get(name)
        return default if value is None else value


def architecture_of(config: Config) -> str:
    """GGUF's name of it."""
    kind = config.get("model_type")
    name = ARCHITECTURES.get(kind) if isinstance(kind, str) else None
    if name is None:
        known = ", ".join(ARCHITECTURES)
        text = f"{config.path} describes a model of type `{kind!s:.40}`, which is not supported"
        raise WgError(f"{text}; supported are {known}")
    for setting, values in ORDINARY.items():
        if config.values.get(setting) not in values:
            value = config.values[setting]
            raise WgError(f"{config.path}: `{setting}` is {value!r:.60}, which is not supported")
    return name


def metadata_of(config: Config) -> dict[str, Any]:
    """The facts that `describe` asks for."""
    name = architecture_of(config)
    defaults = DEFAULTS.get(config.values["model_type"], {})
    facts: dict[str, Any] = {}
    for key, names in FACTS.items():
        values = (config.get(one, defaults.get(one)) for one in names)
        facts[key] = next((value for value in values if value is not None), None)
    if name == "gpt2" and facts["feed_forward_length"] is None:
        facts["feed_forward_length"] = 4 * _count(config, "n_embd")
    if name == "gemma":
        # Old files say `gelu` and mean its tanh form, as the library does.
        facts["activation"] = "gelu_pytorch_tanh"
    facts |= _positions(config, facts) | _window(config)
    given = {f"{name}.{key}": value for key, value in facts.items() if value is not None}
    return {"general.architecture": name, "general.name": _title(config), **given}


def _title(config: Config) -> str:
    name = config.get("_name_or_path")
    title = name.rstrip("/").rpartition("/")[2] if isinstance(name, str) else ""
    return title or config.path.resolve().parent.name


def _positions(config: Config, facts: dict[str, Any]) -> dict[str, Any]:
    """Rotary positions: newer files keep all of it in `rope_parameters`."""
    scaling = config.get("rope_scaling", {})
    rope = config.get("rope_parameters", scaling)
    if not isinstance(rope, dict):
        raise WgError(f"{config.path}: `rope_parameters` is {rope!r:.40}, not an object")
    made: dict[str, Any] = {"rope.freq_base": rope.get("rope_theta", config.get("rope_theta"))}
    part = rope.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    if isinstance(part, int | float) and part != 1.0:
        heads = _count(config, "num_attention_heads")
        size = facts["attention.key_length"] or _count(config, "hidden_size") // heads
        made["rope.dimension_count"] = int(size * part)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return made
    made["rope.scaling.type"] = kind
    for key in (
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    ):
        if key in rope:
            made[f"rope.scaling.{key}"] = rope[key]
    return made


def _window(config: Config) -> dict[str, Any]:
    """How far back attention reaches, if all blocks agree about it."""
    window = config.get("sliding_window")
    kinds, is_qwen = config.get("layer_types"), config.get("model_type") in ("qwen2", "qwen3")
    if isinstance(kinds, list) and kinds:
        if window is None or set(kinds) == {"full_attention"}:
            return {}
        if set(kinds) != {"sliding_attention"}:
            text = "blocks with and without a sliding window in one model are not supported"
            raise WgError(f"{config.path}: `layer_types` differ: {text}")
    elif window is None or not config.get("use_sliding_window", not is_qwen):
        return {}
    elif is_qwen and config.get("max_window_layers", 0) > 0:
        text = "blocks with and without a sliding window in one model are not supported"
        raise WgError(f"{config.path}: `max_window_layers` is set: {text}")
    return {"attention.sliding_window": window}


def _count(config: Config, name: str) -> int:
    value = config.get(name)
    if type(value) is not int or not 0 < value < 1 << 31:
        raise WgError(f"{config.path}: `{name}` is {value!r:.40}, not a count")
    return value
