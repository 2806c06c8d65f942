"""Builds model files for tests that run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wgcc.compiler import compile_file
from wgcc.schedule.kernel import PROFILES
from wgcc_runtime import load_plan

# What `load` takes as the device to run the twin.
TWIN = "wasm"
# All profiles that an adapter may run; None: only those for this adapter.
ALL_PROFILES = (*PROFILES, None)


def build(source: Path, folder: Path, **sizes: int) -> Path:
    """Compile `source` into `folder` and return the folder; `sizes` replace dims."""
    compile_file(source, sizes=sizes or None).write(folder)
    return folder


def profiles_of(bundle: Path, machine: Any = None) -> tuple[str | None, ...]:
    """The profiles that differ from each other, on any adapter; the twin has none."""
    if machine == TWIN:
        return (None,)
    has_more = any(name not in PROFILES for name in load_plan(bundle).profiles)
    return ALL_PROFILES if has_more else PROFILES
