"""Weights of llama2.c (`model.bin`): a header with sizes, then all tensors in a known order.

Version 0 has no magic number; version 2 stores matrices as groups of int8 with a scale each. They
get the names of Meta's checkpoints, `layers.0.attention.wq.weight`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

from wgcc.errors import WgError
from wgcc.importing.transforms import FileWeights, Origin, Shape
from wgcc.lazy_numpy import Array, np

MAGIC = b"24ka"
_OLD_HEADER, _HEADER = 28, 256
_MOST = 1 << 24
_PARTS = ("attention.wq", "attention.wk", "attention.wv", "attention.wo",
          "feed_forward.w1", "feed_forward.w2", "feed_forward.w3")  # fmt: skip
NORMS = ("attention_norm", "ffn_norm")

# Names and shapes in the order of the file; unnamed ones are not needed.
Layout = Iterator[tuple[str, Shape]]


@dataclass(frozen=True, slots=True)
class Header:
    """`group`: how many int8 share a scale, 0 if all numbers are f32."""

    dim: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    length: int
    shared: bool
    version: int
    group: int = 0

    @property
    def start(self) -> int:
        return _HEADER if self.version else _OLD_HEADER

    @property
    def head(self) -> int:
        return self.dim // self.heads


def is_llama2c(path: Path) -> bool:
    """Unless it begins as a zip archive or a pickle, as PyTorch writes them."""
    with path.open("rb") as file:
        start = file.read(4)
    is_pickle = start[:1] == b"\x80" and start[2:3] != b"\0"
    return not start.startswith(b"PK") and not is_pickle


def read_llama2c(path: Path) -> FileWeights:
    header = _header(path)
    tensors = [*_layout(header)]
    size = header.start + sum(_bytes(header, name, shape) for name, shape in tensors)
    if (actual_size := path.stat().st_size) != size:
        raise WgError(
            f"{path} is no file of llama2.c, or it is damaged: after its header it would have "
            f"{size} bytes, and it has {actual_size}"
        )
    arrays, data, place = {}, path.read_bytes(), header.start
    for name, shape in tensors:
        if name:
            arrays[name] = _array(header, data, place, name, shape)
        place += _bytes(header, name, shape)
    if header.shared:
        arrays["output.weight"] = arrays["tok_embeddings.weight"]
    return FileWeights(arrays, Origin(rope=_rope(header), notes=_notes(path, header)))


def _rope(header: Header) -> dict[str, int]:
    """How many heads the queries and keys of each layer have."""
    return {
        f"layers.{layer}.attention.{part}.weight": heads
        for layer in range(header.layers)
        for part, heads in (("wq", header.heads), ("wk", header.kv_heads))
    }


def _notes(path: Path, header: Header) -> tuple[str, ...]:
    notes: tuple[str, ...] = (f"{path.name} is of llama2.c, version {header.version}",)
    if header.group:
        notes += (f"its int8 numbers, {header.group} with one scale, become f32",)
    if header.shared:
        notes += ("its classifier is shared: output.weight is tok_embeddings.weight",)
    return notes


def _header(path: Path) -> Header:
    with path.open("rb") as file:
        start = file.read(_HEADER)
    is_new = start.startswith(MAGIC)
    if len(start) < (_HEADER if is_new else _OLD_HEADER):
        raise WgError(f"{path} is too short for a file of llama2.c")
    if is_new:
        version, *sizes = struct.unpack_from("<8i", start, 4)
        shared, group = struct.unpack_from("<Bi", start, 36)
        if version not in (1, 2):
            raise WgError(f"{path} is of version {version} of llama2.c: 0, 1 and 2 are known")
        group = group if version == 2 else 0
    else:
        sizes, version, group = [*struct.unpack_from("<7i", start)], 0, 0
        shared, sizes[5] = sizes[5] > 0, abs(sizes[5])
    dim, hidden, layers, heads, kv_heads, vocab, length = sizes
    header = Header(
        dim, hidden, layers, heads, kv_heads, vocab, length, bool(shared), version, group
    )
    _check(path, header, sizes)
    return header


def _check(path: Path, header: Header, sizes: list[int]) -> None:
    is_whole = all(0 < size <= _MOST for size in sizes)
    if not is_whole or header.dim % header.heads or header.heads % header.kv_heads:
        raise WgError(f"{path} is neither a file of PyTorch nor of llama2.c: its first numbers say "
                      f"{sizes}, which are no sizes of a model")  # fmt: skip
    if header.head % 2:
        raise WgError(f"{path}: heads of {header.head} numbers cannot be rotated in pairs")
    matrices = [header.vocab * header.dim, *(prod(_shape(header, part)) for part in _PARTS)]
    groups = header.group
    if header.version == 2 and (groups <= 0 or any(size % groups for size in matrices)):
        raise WgError(f"{path}: groups of {header.group} numbers do not fill its matrices")
    # Far more layers than the file has bytes would only take time to list.
    if header.layers > path.stat().st_size:
        raise WgError(f"{path} is damaged: it says that it has {header.layers} layers")


def _layout(header: Header) -> Layout:
    dim, norms = header.dim, [("norm.weight", (header.dim,))]
    table = (header.vocab, dim)
    if header.version:
        for norm in NORMS:
            yield from _layers(header, norm, (dim,))
        yield from norms
        yield "tok_embeddings.weight", table
        for part in _PARTS:
            yield from _layers(header, part, _shape(header, part))
    else:
        yield "tok_embeddings.weight", table
        for parts in ((NORMS[0], *_PARTS[:4]), (NORMS[1], *_PARTS[4:])):
            for part in parts:
                yield from _layers(header, part, _shape(header, part))
        yield from norms
        yield "", (header.length, header.head)  # tables of cosines and sines
    if not header.shared:
        yield "output.weight", table


def _layers(header: Header, part: str, shape: Shape) -> Layout:
    return ((f"layers.{layer}.{part}.weight", shape) for layer in range(header.layers))


def _shape(header: Header, part: str) -> Shape:
    dim, inner = header.dim, header.hidden
    kv = header.kv_heads * header.head
    return {
        "attention.wk": (kv, dim), "attention.wv": (kv, dim), "feed_forward.w1": (inner, dim),
        "feed_forward.w2": (dim, inner), "feed_forward.w3": (inner, dim),
        **dict.fromkeys(NORMS, (dim,)),
    }.get(part, (dim, dim))  # fmt: skip


def _is_grouped(header: Header, name: str) -> bool:
    return bool(header.group) and "norm" not in name


def _bytes(header: Header, name: str, shape: Shape) -> int:
    count = prod(shape)
    return count + 4 * (count // header.group) if _is_grouped(header, name) else 4 * count


def _array(header: Header, data: bytes, place: int, name: str, shape: Shape) -> Array:
    count = prod(shape)
    if not _is_grouped(header, name):
        return np.frombuffer(data, "<f4", count, place).reshape(shape)
    groups = count // header.group
    numbers = np.frombuffer(data, "i1", count, place).reshape(groups, -1)
    scales = np.frombuffer(data, "<f4", groups, place + count)
    weights: Array = (numbers.astype("f4") * scales[:, None]).reshape(shape)
    return weights
