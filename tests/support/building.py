"""Builds model files for tests that run them."""

from __future__ import annotations

from pathlib import Path

from wgcc.compiler import compile_file

# What `load` takes as the device to run the twin.
TWIN = "wasm"


def build(source: Path, folder: Path, **sizes: int) -> Path:
    """Compile `source` into `folder` and return the folder; `sizes` replace dims."""
    compile_file(source, sizes=sizes or None).write(folder)
    return folder
