"""Whether workers do the same thing: bundles and data by digests, versions and options as given."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import wgcc_runtime
from wgcc_runtime.arrays import Array
from wgcc_runtime.digests import array_digest, bundle_digest, kind_of
from wgcc_runtime.errors import WgccError


@dataclass(frozen=True, slots=True)
class Identity:
    """`data` and `options`: where each worker has its own, what must be equal, by name."""

    bundle: str
    version: str
    host: str
    adapter: str
    data: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def describe_arrays(arrays: Mapping[str, Array]) -> dict[str, str]:
    """`{"x": "f4 [256, 6] with SHA-256 0123456789ab…"}`"""
    return {
        name: f"{kind_of(array)} with SHA-256 {array_digest(array)[:12]}…"
        for name, array in arrays.items()
    }


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
