"""Digests by which people on different machines know that bundles, data and weights are equal."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.bundle_files import open_bundle

LARGEST = 1 << 40
# How much of an array is hashed at once; one that is not contiguous is copied in such parts.
PART_BYTES = 16 << 20


def bundle_digest(path: str | Path) -> str:
    """The digest of the weights and the plan, which has the digests of kernels and twin."""
    read, digest = open_bundle(path), hashlib.sha256()
    for name in ("plan.json", "weights.safetensors"):
        data = read(name, LARGEST)
        digest.update(f"{name} {-1 if data is None else len(data)}\n".encode())
        digest.update(data or b"")
    return digest.hexdigest()


def array_digest(array: Array) -> str:
    digest, rows = hashlib.sha256(), np.atleast_1d(array)
    count = max(1, PART_BYTES * len(rows) // max(1, rows.nbytes))
    for at in range(0, len(rows), count):
        digest.update(np.ascontiguousarray(rows[at : at + count]).data.cast("B"))
    return digest.hexdigest()


def kind_of(array: Array) -> str:
    return f"{array.dtype.str[1:]} {list(array.shape)}"
