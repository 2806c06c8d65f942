"""The bytes of a safetensors file as pieces, so that many numbers are written without a copy.

They are those that the format's own library writes for one key of metadata; for several it has no
fixed order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array

Piece = bytes | memoryview
# In the order in which the library stores them: wide elements first, which are thereby aligned.
_TYPES = {
    "<u8": "U64", "<i8": "I64", "<f8": "F64", "<f4": "F32", "<u4": "U32", "<i4": "I32",
    "<f2": "F16", "<u2": "U16", "<i2": "I16", "|i1": "I8", "|u1": "U8", "|b1": "BOOL",
}  # fmt: skip
_RANKS = {name: rank for rank, name in enumerate(_TYPES)}


def file_pieces(tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> list[Piece]:
    """The header, then the elements of each tensor, which must not change meanwhile."""
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    order = sorted(arrays, key=lambda name: (_RANKS[arrays[name].dtype.str], name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        start, end = end, end + arrays[name].nbytes
        header[name] = {
            "dtype": _TYPES[arrays[name].dtype.str],
            "shape": list(arrays[name].shape),
            "data_offsets": [start, end],
        }
    return [_header(header), *(bytes_of(arrays[name]) for name in order)]


def bytes_of(array: Array) -> memoryview:
    """The elements in order, without a copy if they are contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _header(header: Mapping[str, Any]) -> bytes:
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


__all__: Sequence[str] = ["Piece", "bytes_of", "file_pieces"]
