"""Small GGUF files of every architecture, written by the `gguf` package with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, quants

VOCABULARY = 320
SIZES = {"width": 64, "heads": 4, "key_heads": 2, "inner": 96, "blocks": 2, "context": 48}
GATED = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
LAYER_NORMS = ("gpt2", "phi2")
BLOCK_BYTES = {name: kind for kind, name in ((144, "Q4_K"), (210, "Q6_K"), (176, "Q5_K"))}


def write_gguf(
    path: Path,
    architecture: str = "llama",
    types: dict[str, str] | None = None,
    seed: int = 0,
    tied: bool = True,
    template: str = "{% for message in messages %}{{ message.content }}{% endfor %}",
    **sizes: int,
) -> Path:
    """`types`: the block type of each role; `default` for the others."""
    writer = GGUFWriter(path, architecture)
    made = _Made(writer, np.random.default_rng(seed), types or {}, {**SIZES, **sizes})
    writer.add_chat_template(template)
    made.metadata(architecture)
    made.tensors(architecture, tied)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


class _Made:
    def __init__(self, writer: Any, rng: Any, types: dict[str, str], sizes: dict[str, int]) -> None:
        self.writer, self.rng, self.types, self.sizes = writer, rng, types, sizes

    def metadata(self, architecture: str) -> None:
        sizes, writer = self.sizes, self.writer
        writer.add_name("tiny model")
        writer.add_block_count(sizes["blocks"])
        writer.add_context_length(sizes["context"])
        writer.add_embedding_length(sizes["width"])
        writer.add_feed_forward_length(sizes["inner"])
        writer.add_head_count(sizes["heads"])
        writer.add_head_count_kv(sizes["key_heads"])
        if architecture == "phi2":
            writer.add_rope_dimension_count(8)
        if architecture in LAYER_NORMS:
            writer.add_layer_norm_eps(1e-5)
        else:
            writer.add_layer_norm_rms_eps(1e-6)
            writer.add_rope_freq_base(5000.0)
        if "head_size" in sizes:
            writer.add_key_length(sizes["head_size"])
        self._vocabulary()

    def _vocabulary(self) -> None:
        """All bytes, as GPT-2 writes them, some merges, and a control token at the end."""
        kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
        spare = iter(range(256, 512))
        letters = [chr(byte if byte in kept else next(spare)) for byte in range(256)]
        pairs = [(a, b) for a in "thequick" for b in "brownfox"][: VOCABULARY - 257]
        tokens = [*letters, *(a + b for a, b in pairs)]
        tokens += [f"<unused{number}>" for number in range(VOCABULARY - 1 - len(tokens))]
        self.writer.add_tokenizer_model("gpt2")
        self.writer.add_tokenizer_pre("smollm")
        self.writer.add_token_list([*tokens, "<|end|>"])
        self.writer.add_token_types([*[1] * len(tokens), 3])
        self.writer.add_token_merges([f"{a} {b}" for a, b in pairs])

    def tensors(self, architecture: str, tied: bool) -> None:
        sizes = self.sizes
        width = sizes["width"]
        self._matrix("token_embd", "token_embd", VOCABULARY, width)
        if architecture == "gpt2":
            self._matrix("position_embd", "F32", sizes["context"], width)
        if not tied or architecture == "phi2":
            self._matrix("output", "output", VOCABULARY, width)
        if architecture == "phi2":
            self.writer.add_tensor("output.bias", self._normal(VOCABULARY))
        self._norm("output_norm", architecture)
        for block in range(sizes["blocks"]):
            self._block(f"blk.{block}.", architecture)

    def _block(self, name: str, architecture: str) -> None:
        sizes = self.sizes
        head = sizes.get("head_size", sizes["width"] // sizes["heads"])
        queries, keys = sizes["heads"] * head, sizes["key_heads"] * head
        width, inner = sizes["width"], sizes["inner"]
        shapes = {
            "attn_q": (queries, width), "attn_k": (keys, width), "attn_v": (keys, width),
            "attn_output": (width, queries), "ffn_gate": (inner, width), "ffn_up": (inner, width),
            "ffn_down": (width, inner),
        }  # fmt: skip
        if architecture in ("gpt2", "phi2", "phi3"):
            for part in ("attn_q", "attn_k", "attn_v", "ffn_gate"):
                del shapes[part]
            shapes["attn_qkv"] = (queries + 2 * keys, width)
        if architecture == "phi3":
            shapes["ffn_up"] = (2 * inner, width)
        for part, shape in shapes.items():
            self._matrix(name + part, part, *shape)
            biased = architecture in LAYER_NORMS or architecture == "qwen2"
            if biased and (architecture != "qwen2" or part in ("attn_q", "attn_k", "attn_v")):
                self.writer.add_tensor(f"{name}{part}.bias", self._normal(shape[0]))
        for part in ("attn_norm", "ffn_norm")[: 1 if architecture == "phi2" else 2]:
            self._norm(name + part, architecture)
        if architecture == "qwen3":
            for part in ("attn_q_norm", "attn_k_norm"):
                self.writer.add_tensor(f"{name}{part}.weight", 1 + self._normal(head))

    def _norm(self, name: str, architecture: str) -> None:
        width = self.sizes["width"]
        self.writer.add_tensor(f"{name}.weight", 1 + self._normal(width))
        if architecture in LAYER_NORMS:
            self.writer.add_tensor(f"{name}.bias", self._normal(width))

    def _matrix(self, name: str, role: str, outputs: int, inputs: int) -> None:
        kind = role if role == "F32" else self.types.get(role, self.types.get("default", "F32"))
        type_ = GGMLQuantizationType[kind]
        data = random_blocks(self.rng, kind, outputs, inputs)
        self.writer.add_tensor(f"{name}.weight", data, raw_dtype=type_)

    def _normal(self, *shape: int) -> Any:
        return self.rng.normal(0.0, 0.1, shape).astype(np.float32)


def random_blocks(rng: Any, kind: str, outputs: int, inputs: int) -> Any:
    """Weights of about 0.2, in the format of a type that `gguf` may be unable to write itself."""
    numbers = rng.normal(0.0, 0.2, (outputs, inputs)).astype(np.float32)
    if kind == "F32":
        return numbers
    if kind not in BLOCK_BYTES:
        return quants.quantize(numbers, GGMLQuantizationType[kind])
    size = BLOCK_BYTES[kind]
    blocks = rng.integers(0, 256, (outputs * inputs // 256, size), dtype=np.uint8)
    at = (208,) if kind == "Q6_K" else (0, 2)
    for place, scale in zip(at, (1e-4, 1e-3), strict=False):
        half = np.array([scale if kind == "Q6_K" else 10 * scale / (place + 2)], "<f2")
        blocks[:, place : place + 2] = half.view(np.uint8)
    return blocks.reshape(outputs, -1)
