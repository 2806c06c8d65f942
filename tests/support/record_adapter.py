"""Records an adapter of PEFT, and what PEFT makes of one of ours: tests/recorded/peft/.

    python tests/support/record_adapter.py     with torch, transformers, peft, gguf and numpy

The base is the dequantised GGUF file that `gguf_files.py` writes. PEFT's adapter has random
factors, and in one layer another rank. With OURS, a folder that `wgcc export --to peft` wrote for
that base, the scores that PEFT computes are written beside it, and the names in it compared.
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
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from gguf_files import SIZES, VOCABULARY, write_gguf
from lora_case import rows_of
from record_lora import EPS, HEADS, KEY_HEADS, THETA, _halves

TARGET = Path(__file__).parents[1] / "recorded" / "peft"
NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}  # fmt: skip


def main(ours: list[str]) -> None:
    torch.manual_seed(3)
    config = LoraConfig(
        r=3, lora_alpha=5, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM",
        rank_pattern={"layers.1.self_attn.v_proj": 2}, init_lora_weights=False,
    )  # fmt: skip
    model = get_peft_model(base(), config)
    for folder in ours:
        own = PeftModel.from_pretrained(base(), folder)
        names = {name.replace(".default", "") for name in own.state_dict() if "lora_" in name}
        assert names == set(load_file(f"{folder}/adapter_model.safetensors")), "names of PEFT"
        Path(folder, "scores.json").write_text(json.dumps(scores(own)))
    if not ours:
        model.save_pretrained(str(TARGET))
        (TARGET / "README.md").unlink(missing_ok=True)
        (TARGET / "scores.json").write_text(json.dumps(scores(model)) + "\n")


def scores(model: Any) -> list[list[float]]:
    """Those of every fifth token."""
    ids = torch.tensor(rows_of(0)[0]).long()
    with torch.no_grad():
        return [[round(v, 6) for v in row] for row in model.eval()(ids).logits[0, ::5].tolist()]


def base() -> Any:
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=SIZES["width"], intermediate_size=SIZES["inner"],
        num_hidden_layers=SIZES["blocks"], num_attention_heads=HEADS,
        num_key_value_heads=KEY_HEADS, rms_norm_eps=EPS, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with tempfile.TemporaryDirectory() as folder:
        types = {"default": "Q4_1", "token_embd": "Q8_0"}
        file = gguf.GGUFReader(write_gguf(Path(folder) / "m.gguf", "llama", types))
        left = model.load_state_dict(dict(map(renamed, file.tensors)), strict=False)
    assert left.missing_keys == ["lm_head.weight"] and not left.unexpected_keys
    model.tie_weights()
    return model


def renamed(tensor: Any) -> tuple[str, Any]:
    value = torch.tensor(np.array(gguf.dequantize(tensor.data, tensor.tensor_type)))
    whole = {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
    }
    if tensor.name in whole:
        return whole[tensor.name], value
    _, block, role, _ = tensor.name.split(".")
    heads = {"attn_q": HEADS, "attn_k": KEY_HEADS}.get(role)
    value = _halves(value, heads) if heads else value
    return f"model.layers.{block}.{NAMES[role]}.weight", value


if __name__ == "__main__":
    main(sys.argv[1:])
