"""Adapters as llama.cpp stores them: a GGUF file with two factors beside each corrected matrix.

    blk.0.attn_q.weight.lora_a   [rank, inputs]
    blk.0.attn_q.weight.lora_b   [outputs, rank]

A correction is scaled by `adapter.lora.alpha / rank`. Rows of `lora_b` have the order of the matrix
in the model's file, which rotates neighbours in some architectures.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from wgcc.errors import WgError
from wgcc.from_gguf.architecture import ROTATES_NEIGHBOURS
from wgcc.from_gguf.block_types import dequantise
from wgcc.from_gguf.read import MAGIC, STRING, GgufFile
from wgcc.from_gguf.weights import PLACES, turn_heads
from wgcc.lazy_numpy import Array, np
from wgcc_runtime.adapters import Adapter, Factors

TENSOR = re.compile(r"blk\.(\d+)\.(\w+)\.weight\.lora_([ab])$")
# The roles whose rows belong to heads that rotate.
ROTATED = ("attn_q", "attn_k")
ROLES = {place: role for role, place in PLACES.items()}
FLOAT, ALIGNMENT = 6, 32


def read_adapter(path: Path, head_size: int) -> Adapter:
    """Any adapter: a GGUF file, or PEFT's. `head_size`: that of the model's queries and keys."""
    if not is_gguf(path):
        return Adapter.read(path)
    with GgufFile(path) as file:
        _check(file)
        rotates = file.metadata.get("general.architecture") in ROTATES_NEIGHBOURS
        pairs: dict[tuple[str, str], dict[str, Array]] = {}
        for name, tensor in file.tensors.items():
            block, role, part = _place(path, name)
            shape = tensor.shape
            pairs.setdefault((block, role), {})[part] = dequantise(
                tensor.type, file.read(tensor), shape
            )
        alpha = file.metadata["adapter.lora.alpha"]
        layers = {
            f"blocks.{block}.{PLACES[role]}": _factors(
                path, f"blk.{block}.{role}", pair, alpha, head_size if rotates else 0
            )
            for (block, role), pair in pairs.items()
        }
    return Adapter(layers, str(path))


def is_gguf(path: Path) -> bool:
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def gguf_adapter(adapter: Adapter, architecture: str, head_size: int) -> bytes:
    """The file of an adapter of a model of this architecture."""
    first = next(iter(adapter.layers.values()))
    facts: dict[str, str | float] = {
        "general.type": "adapter",
        "general.architecture": architecture,
        "adapter.type": "lora",
        "adapter.lora.alpha": first.scale * first.rank,
    }
    size = head_size if architecture in ROTATES_NEIGHBOURS else 0
    return _file(facts, dict(_tensors(adapter, size)))


def _tensors(adapter: Adapter, head_size: int) -> Iterator[tuple[str, Array]]:
    first = next(iter(adapter.layers.values()))
    for place, factors in adapter.layers.items():
        _, block, layer = place.split(".", 2)
        role = ROLES[layer]
        # llama.cpp divides alpha by each layer's own rank.
        share = factors.scale * factors.rank / (first.scale * first.rank)
        rows = (factors.b * np.float32(share)).T
        if head_size and role in ROTATED:
            rows = _as_neighbours(rows, head_size)
        name = f"blk.{block}.{role}.weight.lora_"
        yield f"{name}a", np.ascontiguousarray(factors.a.T, np.float32)
        yield f"{name}b", np.ascontiguousarray(rows, np.float32)


def _as_neighbours(rows: Array, size: int) -> Array:
    """The opposite of `turn_heads`."""
    pairs = rows.reshape(-1, 2, size // 2, rows.shape[1])
    turned: Array = pairs.swapaxes(1, 2).reshape(rows.shape)
    return turned


def _check(file: GgufFile) -> None:
    if file.metadata.get("general.type") != "adapter":
        raise WgError(f"{file.path} is a model, not an adapter (general.type)")
    kind, alpha = file.metadata.get("adapter.type"), file.metadata.get("adapter.lora.alpha")
    if kind != "lora":
        raise WgError(f"{file.path} is an adapter of type {kind!r:.40}, not lora")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha < 1e6:
        raise WgError(f"{file.path}: `adapter.lora.alpha` is {alpha!r:.40}, not a number above 0")


def _place(path: Path, name: str) -> tuple[str, str, str]:
    match = TENSOR.match(name)
    if match is None or match[2] not in PLACES:
        text = f"{path} has a tensor `{name[:120]}`"
        raise WgError(f"{text}; factors of {', '.join(PLACES)} are read")
    return str(int(match[1])), match[2], match[3]


def _factors(
    path: Path, name: str, pair: Mapping[str, Array], alpha: float, head_size: int
) -> Factors:
    for part in "ab":
        if part not in pair or pair[part].ndim != 2:
            raise WgError(f"{path} lacks the matrix `{name}.weight.lora_{part}`")
    a, rows = pair["a"], pair["b"]
    if len(a) != rows.shape[1]:
        raise WgError(f"{path}: `{name}` has factors of rank {len(a)} and {rows.shape[1]}")
    if head_size and name.endswith(ROTATED):
        if len(rows) % head_size:
            text = f"{path}: `{name}` has {len(rows)} outputs, no whole heads of {head_size}"
            raise WgError(f"{text}: it was made for another model")
        rows = turn_heads(rows, len(rows) // head_size)
    return Factors(a.T, rows.T, alpha / len(a))


def _file(facts: Mapping[str, str | float], tensors: Mapping[str, Array]) -> bytes:
    """See read.py for the layout; all tensors are F32."""
    head = [MAGIC, struct.pack("<IQQ", 3, len(tensors), len(facts))]
    for key, value in facts.items():
        data = _string(value) if isinstance(value, str) else struct.pack("<f", value)
        kind = STRING if isinstance(value, str) else FLOAT
        head += [_string(key), struct.pack("<I", kind), data]
    offset, parts = 0, list[bytes]()
    for name, array in tensors.items():
        sizes = array.shape[::-1]
        head += [_string(name), struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, 0, offset)]
        parts.append(_pad(array.tobytes()))
        offset += len(parts[-1])
    return _pad(b"".join(head)) + b"".join(parts)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % ALIGNMENT)
