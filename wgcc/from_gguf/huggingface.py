"""Reads folders of Hugging Face's transformers, presented as GGUF files are.

`config.json` gives the metadata, `*.safetensors` the tensors under GGUF's names, one read at a
time. Every size is compared with the file before anything is made of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from wgcc.errors import WgError
from wgcc.files import Unreadable, read_bytes
from wgcc.from_gguf.block_types import BLOCK_TYPES, BlockType, dequantise
from wgcc.from_gguf.hf_config import Config, architecture_of, metadata_of
from wgcc.from_gguf.read import MOST_RANK, MOST_TENSORS, StoredTensor
from wgcc.from_gguf.tokenizer import Json
from wgcc.lazy_numpy import np
from wgcc.tokens.read import LARGEST_FILE

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
ONE, INDEX = "model.safetensors", "model.safetensors.index.json"
LARGEST_CONFIG, LARGEST_INDEX, LARGEST_HEADER = 1 << 20, 64 << 20, 100 << 20
TYPES: dict[str, BlockType] = {type_.name: type_ for type_ in BLOCK_TYPES.values()}
FLOATS = ("F32", "F16", "BF16")

# GGUF's names of tensors; `#` is the number of a block.
DECODER = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "final_layernorm": "output_norm",
    "lm_head": "output",
    "layers.#.input_layernorm": "blk.#.attn_norm",
    "layers.#.post_attention_layernorm": "blk.#.ffn_norm",
    "layers.#.self_attn.q_proj": "blk.#.attn_q",
    "layers.#.self_attn.k_proj": "blk.#.attn_k",
    "layers.#.self_attn.v_proj": "blk.#.attn_v",
    "layers.#.self_attn.qkv_proj": "blk.#.attn_qkv",
    "layers.#.self_attn.o_proj": "blk.#.attn_output",
    "layers.#.self_attn.dense": "blk.#.attn_output",
    "layers.#.self_attn.q_norm": "blk.#.attn_q_norm",
    "layers.#.self_attn.k_norm": "blk.#.attn_k_norm",
    "layers.#.mlp.gate_proj": "blk.#.ffn_gate",
    "layers.#.mlp.up_proj": "blk.#.ffn_up",
    "layers.#.mlp.gate_up_proj": "blk.#.ffn_up",
    "layers.#.mlp.fc1": "blk.#.ffn_up",
    "layers.#.mlp.down_proj": "blk.#.ffn_down",
    "layers.#.mlp.fc2": "blk.#.ffn_down",
}
GPT2 = {
    "wte": "token_embd",
    "wpe": "position_embd",
    "ln_f": "output_norm",
    "lm_head": "output",
    "h.#.ln_1": "blk.#.attn_norm",
    "h.#.ln_2": "blk.#.ffn_norm",
    "h.#.attn.c_attn": "blk.#.attn_qkv",
    "h.#.attn.c_proj": "blk.#.attn_output",
    "h.#.mlp.c_fc": "blk.#.ffn_up",
    "h.#.mlp.c_proj": "blk.#.ffn_down",
}
# What older versions of the library stored beside the weights.
BUFFERS = re.compile(r".*\.(rotary_emb\.inv_freq|attn\.bias|attn\.masked_bias)")


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a tensor. `is_turned`: stored as `[inputs, outputs]`; `adds`: to each number."""

    file: BinaryIO
    stored: StoredTensor
    is_turned: bool
    adds: float


class HuggingFaceFolder:
    """An open folder of a language model."""

    stores_halves = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open = ExitStack()
        config = Config(path / CONFIG, _json(path / CONFIG, LARGEST_CONFIG, "a configuration"))
        try:
            self._places = dict(self._find_tensors(config))
            self.tensors: dict[str, StoredTensor] = {
                name: _as_gguf(name, place) for name, place in self._places.items()
            }
            self.metadata: Mapping[str, Any] = metadata_of(config)
        except BaseException:
            self._open.close()
            raise

    def read(self, tensor: StoredTensor) -> bytes:
        place = self._places[tensor.name]
        place.file.seek(place.stored.start)
        data = place.file.read(place.stored.bytes)
        if len(data) < place.stored.bytes:
            raise WgError(f"{self.path} has a file that became shorter: `{tensor.name}` is cut off")
        if place.adds:
            numbers = dequantise(place.stored.type, data, place.stored.shape)
            return bytes((numbers + np.float32(place.adds)).data)
        if place.is_turned:
            array = np.frombuffer(data, f"<u{place.stored.type.bytes}")
            return bytes(np.ascontiguousarray(array.reshape(place.stored.shape).T).data)
        return data

    def vocabulary(self) -> tuple[Json | None, str]:
        path = self.path / TOKENIZER
        if not path.is_file():
            return None, f"the folder has no {TOKENIZER}"
        return _json(path, LARGEST_FILE, "a vocabulary"), ""

    def chat_template(self) -> str | None:
        path = self.path / "chat_template.jinja"
        if path.is_file():
            return read_bytes(path, LARGEST_CONFIG, "a template").decode(errors="replace")
        path = self.path / "tokenizer_config.json"
        config = _json(path, LARGEST_FILE, "a configuration") if path.is_file() else {}
        template = config.get("chat_template")
        if isinstance(template, list):
            named = {str(t.get("name")): t.get("template") for t in template if isinstance(t, dict)}
            template = named.get("default")
        return template if isinstance(template, str) else None

    def __enter__(self) -> HuggingFaceFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _find_tensors(self, config: Config) -> Iterator[tuple[str, _Place]]:
        architecture, used = architecture_of(config), set[str]()
        names = GPT2 if architecture == "gpt2" else DECODER
        for file, stored in self._read_headers():
            if BUFFERS.fullmatch(stored.name):
                continue
            name = _gguf_name(stored.name, names)
            if name is None or name in used:
                text = f"{self.path} holds `{stored.name}`, which models of {architecture}"
                raise WgError(f"{text} do not have here: it is not supported")
            if name == "output.weight" and config.get(
                "tie_word_embeddings", architecture == "gpt2"
            ):
                continue
            used.add(name)
            is_turned = architecture == "gpt2" and len(stored.shape) == 2 and "blk." in name
            adds = float(architecture == "gemma" and name.endswith("norm.weight"))
            yield name, _Place(file, stored, is_turned, adds)

    def _read_headers(self) -> Iterator[tuple[BinaryIO, StoredTensor]]:
        """Every tensor of every file."""
        seen = set[str]()
        for path in self._files():
            try:
                file = self._open.enter_context(path.open("rb"))
            except OSError as error:
                raise WgError(f"{path} cannot be read: {error.strerror}") from None
            for stored in _header(path, file, path.stat().st_size):
                if stored.name in seen:
                    raise WgError(f"{self.path} has two tensors called `{stored.name}`")
                seen.add(stored.name)
                yield file, stored

    def _files(self) -> list[Path]:
        if (self.path / ONE).is_file():
            return [self.path / ONE]
        if not (self.path / INDEX).is_file():
            text = f"{self.path} has neither {ONE} nor {INDEX}; PyTorch writes them with"
            raise WgError(f"{text} model.save_pretrained(FOLDER)")
        index = _json(self.path / INDEX, LARGEST_INDEX, "an index")
        shards = index.get("weight_map")
        if not isinstance(shards, dict) or not shards:
            raise WgError(f"{self.path / INDEX} has no `weight_map`")
        names = sorted({str(name) for name in shards.values()})
        for name in names:
            if not re.fullmatch(r"[\w.-]+\.safetensors", name) or not (self.path / name).is_file():
                raise WgError(f"{self.path / INDEX} names `{name:.80}`, which is not in the folder")
        return [self.path / name for name in names]


def is_huggingface(path: Path) -> bool:
    return path.is_dir() and (path / CONFIG).is_file()


def _gguf_name(name: str, names: Mapping[str, str]) -> str | None:
    """`model.layers.3.mlp.up_proj.weight` → `blk.3.ffn_up.weight`"""
    stem, _, end = re.sub(r"^(model|transformer)\.", "", name).rpartition(".")
    number = re.search(r"\.(\d{1,5})\.", stem)
    target = names.get(re.sub(r"\.\d{1,5}\.", ".#.", stem, count=1))
    if target is None or end not in ("weight", "bias"):
        return None
    return f"{target.replace('#', number[1] if number else '')}.{end}"


def _as_gguf(name: str, place: _Place) -> StoredTensor:
    shape = place.stored.shape[::-1] if place.is_turned else place.stored.shape
    type_ = TYPES["F32"] if place.adds else place.stored.type
    return replace(place.stored, name=name, shape=shape, type=type_)


def _header(path: Path, file: BinaryIO, size: int) -> list[StoredTensor]:
    """The tensors of one file of safetensors."""
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, LARGEST_HEADER):
        raise WgError(f"{path} is cut off, or no file of safetensors")
    specs = _parse(path, file.read(length))
    specs.pop("__metadata__", None)
    if len(specs) > MOST_TENSORS:
        raise WgError(f"{path} has {len(specs):,} tensors; at most {MOST_TENSORS:,} are read")
    return [_tensor(path, name, spec, 8 + length, size) for name, spec in specs.items()]


def _tensor(path: Path, name: str, spec: Any, begin: int, size: int) -> StoredTensor:
    fields = spec if isinstance(spec, dict) else {}
    shape, offsets = fields.get("shape", ()), fields.get("data_offsets", ())
    dtype = fields.get("dtype")
    if not _are_counts(shape) or not _are_counts(offsets, 2):
        raise WgError(f"{path} is damaged: `{name:.80}` has no shape or place")
    if dtype not in FLOATS:
        text = f"{path} has `{name:.80}` of type {dtype!r:.20}; read are {', '.join(FLOATS)}"
        raise WgError(text)
    if not 0 < len(shape) <= MOST_RANK or 0 in shape:
        raise WgError(f"{path} has `{name:.80}` of shape {shape!r:.60}: that cannot be")
    tensor = StoredTensor(name, tuple(shape), TYPES[dtype], begin + offsets[0])
    if tensor.bytes != offsets[1] - offsets[0] or begin + offsets[1] > size:
        raise WgError(f"{path} is cut off or damaged: `{name:.80}` has not the bytes of its shape")
    return tensor


def _are_counts(value: Any, length: int | None = None) -> bool:
    if not isinstance(value, list) or length not in (None, len(value)):
        return False
    return all(type(n) is int and 0 <= n < 1 << 48 for n in value)


def _json(path: Path, limit: int, what: str) -> dict[str, Any]:
    try:
        return _parse(path, read_bytes(path, limit, what))
    except Unreadable as error:
        raise WgError(f"{path}: {error.reason}") from None


def _parse(path: Path, data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WgError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise WgError(f"{path} holds no JSON object")
    return value
