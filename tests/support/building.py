"""Builds model files for tests that run them; those of the repository once per run."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from adapters import ROOT
from wgcc.compiler import compile_file
from wgcc.schedule import write_kernels

if TYPE_CHECKING:
    import pytest

# What `load` takes as the device to run the twin.
TWIN = "wasm"
# The folder for built bundles of one run of the tests, which all of its processes share.
BUILT = "WGCC_TEST_BUNDLES"


def build(source: Path, folder: Path, twin: bool = True, **sizes: int) -> Path:
    """Compile `source` into `folder` and return the folder; `sizes` replace dims."""
    shared = os.environ.get(BUILT)
    if shared and source.is_relative_to(ROOT) and not folder.exists():
        shutil.copytree(_built_once(Path(shared), source, twin, sizes), folder)
    else:
        _compile(source, folder, twin, sizes)
    return folder


def forget_kernels(patch: pytest.MonkeyPatch) -> None:
    """Kernels are written anew, by what a test changes of their families."""
    patch.setattr(write_kernels, "_WRITTEN", write_kernels.Repeated())


def _built_once(shared: Path, source: Path, twin: bool, sizes: dict[str, int]) -> Path:
    """The bundle in the shared folder. Another process may build it, too: the first one counts."""
    options = f"{source.relative_to(ROOT)} {twin} {sorted(sizes.items())}"
    bundle = shared / hashlib.sha256(options.encode()).hexdigest()
    if not bundle.exists():
        own = Path(tempfile.mkdtemp(dir=shared)) / "bundle"
        _compile(source, own, twin, sizes)
        try:
            own.rename(bundle)
        except OSError:
            if not bundle.exists():
                raise
    return bundle


def _compile(source: Path, folder: Path, twin: bool, sizes: dict[str, int]) -> None:
    compile_file(source, sizes=sizes or None, twin=twin).write(folder)
