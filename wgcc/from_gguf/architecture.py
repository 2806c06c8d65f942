"""The shape of a decoder that a GGUF file holds: sizes, norms, positions and which parts it has.

Facts come from the metadata where it has them, else from the tensors that are there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wgcc.errors import WgError
from wgcc.from_gguf.read import TensorSource

TABLE, POSITIONS, OUTPUT = "token_embd.weight", "position_embd.weight", "output.weight"
# Architectures whose queries and keys are stored for rotations of neighbours; ours turns halves.
ROTATES_NEIGHBOURS = ("llama",)
SUPPORTED = ("llama", "qwen2", "qwen3", "gemma", "phi2", "phi3", "gpt2")
FACTORS = "rope_freqs.weight"
# Names of activations in files, as ours; `gelu` means its tanh form in GGUF.
ACTIVATIONS = {
    "silu": "silu", "swish": "silu", "relu": "relu", "gelu": "gelu",
    "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
}  # fmt: skip
USUAL_ACTIVATIONS = dict.fromkeys(("gemma", "phi2", "gpt2"), "gelu_new")
# What other versions of an architecture have, and nothing here computes.
UNSUPPORTED_TENSORS = {
    "ffn_gate_inp": "a mixture of experts",
    "post_attention_norm": "norms after attention",
    "post_ffw_norm": "norms after the feed-forward part",
    "ssm_conv1d": "state-space layers",
}


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """Rotary positions turn slower for long texts: by numbers of the file, or by `factor`.

    Of kind `llama3`, frequencies that turn often within `original` tokens stay as they are, and
    those between `low` and `high` turns change gradually.
    """

    kind: str
    factor: float = 1.0
    low: float = 1.0
    high: float = 1.0
    original: int = 1


@dataclass(frozen=True, slots=True)
class Decoder:
    """`head_size` of queries and keys, of which `rotary` numbers turn with the position; `window`:
    how far back attention reaches, 0 for all; `is_parallel`: attention and feed-forward part of a
    block read the same normed values.
    """

    architecture: str
    vocabulary: int
    width: int
    heads: int
    key_heads: int
    head_size: int
    rotary: int
    inner: int
    blocks: int
    context: int
    eps: float
    theta: float
    window: int
    norm: str
    activation: str
    is_gated: bool
    is_tied: bool
    scales_table: bool
    has_positions: bool
    has_query_norm: bool
    has_query_bias: bool
    has_output_bias: bool
    has_inner_bias: bool
    has_head_bias: bool
    is_parallel: bool
    rotates_neighbours: bool
    scaling: RopeScaling | None

    @property
    def is_rotary(self) -> bool:
        return not self.has_positions


def describe(file: TensorSource) -> Decoder:
    """The decoder of a file; what cannot be imported is refused with its name."""
    facts = _Facts(file)
    name = facts.architecture
    _refuse_unsupported(file, name)
    heads, width = facts.count("attention.head_count"), facts.count("embedding_length")
    size = facts.count("attention.key_length", max(1, width // heads))
    parts = {part.split(".", 2)[2] for part in file.tensors if part.startswith("blk.0.")}
    is_fused = "attn_qkv.weight" in parts
    return Decoder(
        architecture=name,
        vocabulary=facts.shape(TABLE)[0],
        width=width,
        heads=heads,
        key_heads=facts.count("attention.head_count_kv", heads),
        head_size=size,
        rotary=facts.rotary(size),
        inner=facts.count("feed_forward_length"),
        blocks=facts.count("block_count"),
        context=facts.count("context_length"),
        eps=facts.eps(),
        theta=facts.number("rope.freq_base", 10000.0),
        window=facts.count("attention.sliding_window", 0),
        norm="LayerNorm" if "attn_norm.bias" in parts else "RMSNorm",
        activation=facts.activation(),
        is_gated=name not in ("gpt2", "phi2"),
        is_tied=OUTPUT not in file.tensors,
        scales_table=name == "gemma",
        has_positions=POSITIONS in file.tensors,
        has_query_norm="attn_q_norm.weight" in parts,
        has_query_bias=("attn_qkv.bias" if is_fused else "attn_q.bias") in parts,
        has_output_bias="attn_output.bias" in parts,
        has_inner_bias="ffn_up.bias" in parts,
        has_head_bias="output.bias" in file.tensors,
        is_parallel=name == "phi2",
        rotates_neighbours=name in ROTATES_NEIGHBOURS and not file.stores_halves,
        scaling=facts.scaling(),
    )


def _refuse_unsupported(file: TensorSource, name: str) -> None:
    if name not in SUPPORTED:
        known = ", ".join(SUPPORTED)
        text = f"{file.path} holds a model of architecture `{name}`, which is not supported"
        raise WgError(f"{text}; supported are {known}")
    for part, what in UNSUPPORTED_TENSORS.items():
        if f"blk.0.{part}.weight" in file.tensors:
            raise WgError(
                f"{file.path} uses {what}, which is not supported (`blk.0.{part}.weight`)"
            )
    for tensor in ("rope_factors_long.weight", "rope_factors_short.weight"):
        if tensor in file.tensors:
            raise WgError(f"{file.path} scales rotary positions by `{tensor}`: not supported")


class _Facts:
    """Metadata of the architecture: `llama.block_count` is asked for as `block_count`."""

    def __init__(self, file: TensorSource) -> None:
        self._file = file
        self._metadata: Mapping[str, Any] = file.metadata
        name = self._metadata.get("general.architecture")
        if not isinstance(name, str):
            raise WgError(f"{file.path} does not name its architecture (general.architecture)")
        self.architecture = name

    def number(self, key: str, default: float) -> float:
        value = self._metadata.get(f"{self.architecture}.{key}", default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise WgError(f"{self._file.path}: `{self.architecture}.{key}` is no number")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        full = f"{self.architecture}.{key}"
        value = self._metadata.get(full, default)
        if value is None:
            raise WgError(f"{self._file.path} has no `{full}`")
        least = 0 if default == 0 else 1
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 31:
            raise WgError(f"{self._file.path}: `{full}` is {value!r:.40}, not a count")
        return value

    def rotary(self, head_size: int) -> int:
        """How many numbers of a head turn: an even count, since both halves do."""
        count = self.count("rope.dimension_count", head_size)
        if count % 2 or count > head_size:
            raise WgError(f"{self._file.path} turns {count} of {head_size} numbers of a head")
        return count

    def activation(self) -> str:
        usual = USUAL_ACTIVATIONS.get(self.architecture, "silu")
        name = self._metadata.get(f"{self.architecture}.activation", usual)
        if name not in ACTIVATIONS:
            text = f"{self._file.path} has the activation {name!r:.40}, which is not supported"
            raise WgError(text)
        return ACTIVATIONS[name]

    def scaling(self) -> RopeScaling | None:
        if FACTORS in self._file.tensors:
            return RopeScaling("file")
        kind = self._metadata.get(f"{self.architecture}.rope.scaling.type", "none")
        if kind in ("none", ""):
            return None
        if kind not in ("linear", "llama3"):
            text = f"{self._file.path} scales rotary positions by {kind!r:.40}"
            raise WgError(f"{text}, which is not supported")
        factor = self._positive("rope.scaling.factor")
        if kind == "linear":
            return RopeScaling(kind, factor)
        names = ("low_freq_factor", "high_freq_factor")
        low, high = (self._positive(f"rope.scaling.{name}") for name in names)
        original = self.count("rope.scaling.original_max_position_embeddings")
        if low >= high:
            raise WgError(f"{self._file.path}: `low_freq_factor` is not below `high_freq_factor`")
        return RopeScaling(kind, factor, low, high, original)

    def _positive(self, key: str) -> float:
        value = self.number(key, 0.0)
        if not 0 < value < math.inf:
            raise WgError(f"{self._file.path}: `{self.architecture}.{key}` is not above 0")
        return value

    def eps(self) -> float:
        default = self.number("attention.layer_norm_epsilon", 1e-5)
        # Stored as f32: the shortest decimal number that rounds to it is what people write.
        return float(f"{self.number('attention.layer_norm_rms_epsilon', default):.7g}")

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self._file.tensors:
            raise WgError(f"{self._file.path} has no tensor `{name}`")
        return self._file.tensors[name].shape
