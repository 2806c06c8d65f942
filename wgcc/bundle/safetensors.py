"""The safetensors files of a bundle: elements are as on the GPU, of 32 bits or of one byte."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from wgcc.bundle.content import Content, Pieces
from wgcc.ir.dtypes import DTYPE_TABLE
from wgcc.lazy_numpy import Array, np

# Pages read larger files piece by piece; these hold a checksum, because the seal has no digest.
LARGE_BYTES = 8_000_000


def safetensors_content(tensors: Mapping[str, tuple[str, Array]]) -> Content:
    """A JSON header, then the tensors in the same order: those of bytes last, so that words are
    aligned. Large ones are not copied."""
    tensors = dict(sorted(tensors.items(), key=lambda item: -DTYPE_TABLE[item[1][0]].bytes))
    header = words_header({name: (dtype, a.shape) for name, (dtype, a) in tensors.items()})
    is_large = sum(array.nbytes for _, array in tensors.values()) > LARGE_BYTES
    if is_large:
        header = {"__metadata__": _checksum(tensors), **header}
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    arrays = (np.ascontiguousarray(array) for _, array in tensors.values())
    parts = (array.reshape(-1).view(np.uint8).data for array in arrays)
    content = Pieces([struct.pack("<Q", len(text)) + text, *parts])
    return content if is_large else bytes(content)


def _checksum(tensors: Mapping[str, tuple[str, Array]]) -> dict[str, str]:
    """Metadata that both runtimes compare with what they read."""
    # Only here, because it takes time to import.
    from wgcc_runtime.weights import metadata_of

    return metadata_of({name: array for name, (_, array) in tensors.items()})


def words_header(tensors: Mapping[str, tuple[str, Sequence[int]]]) -> dict[str, Any]:
    """The header of a file that stores these tensors one after the other, in this order."""
    header: dict[str, Any] = {}
    at = 0
    for name, (dtype, shape) in tensors.items():
        end = at + DTYPE_TABLE[dtype].bytes * math.prod(shape)
        header[name] = {
            "dtype": DTYPE_TABLE[dtype].stored,
            "shape": list(shape),
            "data_offsets": [at, end],
        }
        at = end
    return header


def read_header(data: bytes) -> Any:
    """The header of a file; None if it has none."""
    try:
        (length,) = struct.unpack("<Q", data[:8])
        return json.loads(data[8 : 8 + length])
    except (struct.error, ValueError, RecursionError):
        return None
