"""Reads GGUF files: metadata, the table of tensors, and one tensor's bytes at a time.

    file    := "GGUF" version:u32 tensors:u64 pairs:u64 pair* tensor* padding data
    pair    := key:string type:u32 value
    tensor  := name:string rank:u32 size:u64* type:u32 offset:u64
    string  := length:u64 bytes

Sizes run from the fastest axis to the slowest. Every count is compared with the bytes that are left
before anything is made of it, so that a file costs no more memory than it has bytes.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from wgcc.errors import WgError
from wgcc.from_gguf.block_types import BLOCK_TYPES, BlockType
from wgcc.from_gguf.tokenizer import Json, tokenizer_json

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT_KEY = "general.alignment"
# A vocabulary of 256,000 tokens and as many merges has less.
MOST_HEADER_BYTES = 256 << 20
MOST_RANK = 4
MOST_TENSORS = 100_000

STRING, ARRAY = 8, 9
# Type numbers of metadata, as formats of `struct`.
SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """`shape` has the slowest axis first; `start` counts from the beginning of the file."""

    name: str
    shape: tuple[int, ...]
    type: BlockType
    start: int

    @property
    def bytes(self) -> int:
        return prod(self.shape) // self.type.elements * self.type.bytes


class TensorSource(Protocol):
    """A GGUF file, or another source that is presented as such.

    `metadata` holds numbers, texts, and lists of them, by the names that GGUF has for them;
    `stores_halves`: whether queries and keys are stored for rotations of halves in any case.
    """

    @property
    def path(self) -> Path: ...

    @property
    def metadata(self) -> Mapping[str, Any]: ...

    @property
    def tensors(self) -> Mapping[str, StoredTensor]: ...

    @property
    def stores_halves(self) -> bool: ...

    def read(self, tensor: StoredTensor) -> bytes: ...

    def vocabulary(self) -> tuple[Json | None, str]:
        """A `tokenizer.json`, or why there is none."""

    def chat_template(self) -> str | None: ...


class GgufFile:
    """An open file."""

    stores_halves = False

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise WgError(f"{path} cannot be read: {error.strerror}") from None
        try:
            header = _Header(path, self._file, os.fstat(self._file.fileno()).st_size)
            self.metadata: Mapping[str, Any] = header.metadata
            self.tensors: Mapping[str, StoredTensor] = header.tensors
        except BaseException:
            self._file.close()
            raise

    def read(self, tensor: StoredTensor) -> bytes:
        self._file.seek(tensor.start)
        data = self._file.read(tensor.bytes)
        if len(data) < tensor.bytes:
            raise WgError(f"{self.path} ends within `{tensor.name}`: it became shorter")
        return data

    def vocabulary(self) -> tuple[Json | None, str]:
        return tokenizer_json(self.metadata)

    def chat_template(self) -> str | None:
        template = self.metadata.get("tokenizer.chat_template")
        return template if isinstance(template, str) else None

    def __enter__(self) -> GgufFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class _Header:
    """Reads everything before the data."""

    def __init__(self, path: Path, file: BinaryIO, file_size: int) -> None:
        self._path, self._file, self._size, self._at = path, file, file_size, 0
        if self._take(4) != MAGIC:
            raise self._refuse("is no GGUF file: it does not begin with `GGUF`")
        version = self._scalar("I")
        if version not in VERSIONS:
            # A file for machines of the other byte order has its version in the upper bytes.
            order = " (a file for big-endian machines)" if version and version % 65536 == 0 else ""
            raise self._refuse(f"has version {version}{order}; versions 2 and 3 are known")
        tensors, pairs = self._scalar("Q"), self._scalar("Q")
        self._check_count(pairs, 12, "pairs of metadata")
        self._check_count(tensors, 24, "tensors")
        if tensors > MOST_TENSORS:
            raise self._refuse(f"has {tensors:,} tensors; at most {MOST_TENSORS:,} are read")
        self.metadata: dict[str, Any] = {}
        for _ in range(pairs):
            key = self._string("the name of a pair of metadata")
            self.metadata[key] = self._value(key)
        self.tensors = self._table(tensors)

    def _table(self, count: int) -> dict[str, StoredTensor]:
        entries = [self._tensor() for _ in range(count)]
        alignment = self.metadata.get(ALIGNMENT_KEY, 32)
        if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20:
            raise self._refuse(f"has an alignment of {alignment!r}")
        begin = -(-self._at // alignment) * alignment
        table: dict[str, StoredTensor] = {}
        for name, shape, type_, offset in entries:
            if name in table:
                raise self._refuse(f"has two tensors called `{name}`")
            table[name] = StoredTensor(name, shape, type_, begin + offset)
            self._check_place(table[name])
        return table

    def _tensor(self) -> tuple[str, tuple[int, ...], BlockType, int]:
        name = self._string("the name of a tensor")
        rank = self._scalar("I")
        if not 0 < rank <= MOST_RANK:
            raise self._refuse(f"has `{name}` with {rank} axes; 1 to {MOST_RANK} are read")
        shape = tuple(self._scalar("Q") for _ in range(rank))[::-1]
        number, offset = self._scalar("I"), self._scalar("Q")
        type_ = BLOCK_TYPES.get(number)
        if type_ is None:
            known = ", ".join(known.name for known in BLOCK_TYPES.values())
            raise self._refuse(f"has `{name}` of type {number}, which is not known; known: {known}")
        if 0 in shape or shape[-1] % type_.elements:
            sizes = ", ".join(map(str, shape))
            raise self._refuse(f"has `{name}` of shape [{sizes}], which {type_.name} cannot have")
        return name, shape, type_, offset

    def _check_place(self, tensor: StoredTensor) -> None:
        if tensor.start + tensor.bytes > self._size:
            end = tensor.start + tensor.bytes
            text = f"is cut off: `{tensor.name}` ends at byte {end:,}, the file has {self._size:,}"
            raise self._refuse(text)

    def _value(self, key: str) -> Any:
        kind = self._scalar("I")
        if kind != ARRAY:
            return self._read_item(kind, key)
        kind, count = self._scalar("I"), self._scalar("Q")
        if kind in SCALARS:
            width = struct.calcsize(SCALARS[kind])
            self._check_count(count, width, f"values of `{key}`")
            return list(struct.unpack(f"<{count}{SCALARS[kind]}", self._take(count * width)))
        self._check_count(count, 8, f"values of `{key}`")
        return [self._read_item(kind, key) for _ in range(count)]

    def _read_item(self, kind: int, key: str) -> Any:
        if kind == STRING:
            return self._string(f"`{key}`")
        if kind not in SCALARS:
            raise self._refuse(f"has `{key}` of type {kind}, which is not known")
        return self._scalar(SCALARS[kind])

    def _string(self, what: str) -> str:
        length = self._scalar("Q")
        self._check_count(length, 1, f"bytes of {what}")
        return self._take(length).decode(errors="replace")

    def _scalar(self, form: str) -> Any:
        (value,) = struct.unpack("<" + form, self._take(struct.calcsize(form)))
        return value

    def _check_count(self, count: int, least_bytes: int, what: str) -> None:
        if count * least_bytes > min(self._size, MOST_HEADER_BYTES) - self._at:
            raise self._refuse(f"is cut off or damaged: it says that {count:,} {what} follow")

    def _take(self, count: int) -> bytes:
        part = self._file.read(count)
        if len(part) < count:
            raise self._refuse(f"is cut off at byte {self._at + len(part):,}, in its header")
        self._at += count
        return part

    def _refuse(self, text: str) -> WgError:
        return WgError(f"{self._path} {text}")
