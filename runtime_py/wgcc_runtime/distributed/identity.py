"""Whether workers do the same thing: bundles and data by digests, versions and options as given."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import wgcc_runtime
from wgcc_runtime.arrays import Array
from wgcc_runtime.bundle_files import open_bundle
from wgcc_runtime.errors import WgccError

LARGEST = 1 << 40
# How much of an array is hashed at once; one that is not contiguous is copied in such parts.
PART_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Identity:
    """`data` and `options`: where each worker has its own, what must be equal, by name."""

    bundle: str
    version: str
    host: str
    adapter: str
    data: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def bundle_digest(path: str | Path) -> str:
    """The digest of the weights and the plan, which has the digests of kernels and twin."""
    read, digest = open_bundle(path), hashlib.sha256()
    for name in ("plan.json", "weights.safetensors"):
        data = read(name, LARGEST)
        digest.update(f"{name} {-1 if data is None else len(data)}\n".encode())
        digest.update(data or b"")
    return digest.hexdigest()


def describe_arrays(arrays: Mapping[str, Array]) -> dict[str, str]:
    """`{"x": "f4 [256, 6] with SHA-256 0123456789ab…"}`"""
    return {
        name: f"{array.dtype.str[1:]} {list(array.shape)} with SHA-256 {_digest(array)[:12]}…"
        for name, array in arrays.items()
    }


def _digest(array: Array) -> str:
    digest, rows = hashlib.sha256(), np.atleast_1d(array)
    count = max(1, PART_BYTES * len(rows) // max(1, rows.nbytes))
    for at in range(0, len(rows), count):
        digest.update(np.ascontiguousarray(rows[at : at + count]).data.cast("B"))
    return digest.hexdigest()


def identity(
    path: str | Path,
    adapter: str,
    data: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Identity:
    version, host = wgcc_runtime.__version__, socket.gethostname()
    return Identity(bundle_digest(path), version, host, adapter, data or {}, options or {})


def check_equal(identities: Sequence[Identity]) -> None:
    """`identities` in the order of ranks; raises where one differs from rank 0."""
    for refuse in (_refuse_version, _refuse_bundle, _refuse_options, _refuse_data):
        for rank, other in enumerate(identities):
            refuse(Place(rank, other), Place(0, identities[0]))


@dataclass(frozen=True, slots=True)
class Place:
    rank: int
    of: Identity

    def __str__(self) -> str:
        return f"worker {self.rank} on {self.of.host}"


def _refuse_version(other: Place, first: Place) -> None:
    if other.of.version != first.of.version:
        raise WgccError(
            "version",
            f"{other} has wgcc_runtime {other.of.version}, {first} has {first.of.version}: "
            "install the same version everywhere",
        )


def _refuse_bundle(other: Place, first: Place) -> None:
    if other.of.bundle != first.of.bundle:
        raise WgccError(
            "mismatch",
            f"{other} has another bundle than {first} (SHA-256 {other.of.bundle[:12]}… and "
            f"{first.of.bundle[:12]}…): copy one to all",
        )


def _refuse_options(other: Place, first: Place) -> None:
    for name, value in first.of.options.items():
        if other.of.options.get(name) != value:
            text = f"`{name}` is {other.of.options.get(name)!r} for {other}, {value!r} for {first}"
            raise WgccError("mismatch", f"{text}: start all with the same options", name)


def _refuse_data(other: Place, first: Place) -> None:
    """Rows are shared out by their numbers, so that all must have the same ones."""
    for name, value in first.of.data.items():
        if other.of.data.get(name) != value:
            raise WgccError(
                "mismatch",
                f"{other} has other data than {first}: `{name}` is {other.of.data.get(name)}, "
                f"not {value}: copy the same file to all",
                name,
            )
