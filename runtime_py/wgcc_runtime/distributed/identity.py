"""Whether workers run the same thing: the bundle by its digest, the versions by their names."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import wgcc_runtime
from wgcc_runtime.bundle_files import open_bundle
from wgcc_runtime.errors import WgccError

LARGEST = 1 << 40


@dataclass(frozen=True, slots=True)
class Identity:
    bundle: str
    version: str
    host: str
    adapter: str


def bundle_digest(path: str | Path) -> str:
    """Of the plan, which has the digests of kernels and twin, and of the weights."""
    read, digest = open_bundle(path), hashlib.sha256()
    for name in ("plan.json", "weights.safetensors"):
        data = read(name, LARGEST)
        digest.update(f"{name} {-1 if data is None else len(data)}\n".encode())
        digest.update(data or b"")
    return digest.hexdigest()


def identity(path: str | Path, adapter: str) -> Identity:
    return Identity(bundle_digest(path), wgcc_runtime.__version__, socket.gethostname(), adapter)


def check_equal(found: Sequence[Identity]) -> None:
    """`found` in the order of ranks; raises where one differs from rank 0."""
    first = found[0]
    for rank, other in enumerate(found):
        if other.version != first.version:
            raise WgccError(
                "version",
                f"worker {rank} on {other.host} has wgcc_runtime {other.version}, worker 0 on "
                f"{first.host} has {first.version}: install the same version everywhere",
            )
        if other.bundle != first.bundle:
            raise WgccError(
                "mismatch",
                f"worker {rank} on {other.host} has another bundle than worker 0 on {first.host} "
                f"(SHA-256 {other.bundle[:12]}… and {first.bundle[:12]}…): copy one to all",
            )
