"""Builds models in a process without numpy, and prints the digests of all their files as JSON."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# What a page does not have, either.
BLOCKED = ("numpy", "safetensors", "wasmtime", "wgpu", "click", "rich")


class Blocked:
    """Refuses imports, as if the packages were not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is blocked")


def digests(models: Sequence[str | Path]) -> dict[str, dict[str, str]]:
    """SHA-256 of all files of the bundle of each model."""
    return {
        str(model): {
            name: hashlib.sha256(bytes(content)).hexdigest()
            for name, content in _files(model).items()
        }
        for model in models
    }


def _files(model: str | Path) -> Mapping[str, Any]:
    from wgcc.compiler import compile_file

    return compile_file(model).files(drawn=True)


if __name__ == "__main__":
    sys.meta_path.insert(0, Blocked())  # type: ignore[arg-type]
    print(json.dumps(digests(sys.argv[1:])))
    assert not sys.modules.keys() & set(BLOCKED)
