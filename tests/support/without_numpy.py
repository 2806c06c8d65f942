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


def digests(models: Sequence[str | Path], whole: bool) -> dict[str, dict[str, str]]:
    """SHA-256 of all files of a bundle, or of the graph that is scheduled, with its constants."""
    contents = _files if whole else _graphs
    return {
        str(model): {
            name: hashlib.sha256(bytes(content)).hexdigest()
            for name, content in contents(model).items()
        }
        for model in models
    }


def _files(model: str | Path) -> Mapping[str, Any]:
    from wgcc.compiler import compile_file

    return compile_file(model).files(drawn=True)


def _graphs(model: str | Path) -> Mapping[str, bytes]:
    """Nothing after these passes computes with arrays, and schedules take longer than all else."""
    from wgcc.compiler import read_program
    from wgcc.passes.pipeline import PREPARED, run_passes

    entries = run_passes(read_program(model)[1], until=PREPARED).entries
    return {name: _graph_bytes(graph) for name, graph in entries.items()}


def _graph_bytes(graph: Any) -> bytes:
    from wgcc.ir.text import graph_text

    constants = (constant.value.name.encode() + constant.words for constant in graph.constants)
    return b"".join([graph_text(graph).encode(), *constants])


if __name__ == "__main__":
    sys.meta_path.insert(0, Blocked())  # type: ignore[arg-type]
    print(json.dumps(digests(sys.argv[2:], sys.argv[1] == "whole")))
    assert not sys.modules.keys() & set(BLOCKED)
