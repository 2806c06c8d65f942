"""The WGSL helper functions that ops call, one file each in `wgsl/`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "wgsl"


def source_of(functions: Iterable[str]) -> str:
    """The text of these helper files, each once, sorted by name (WGSL allows any order)."""
    return "\n".join(_read(name) for name in sorted(set(functions)))


@cache
def _read(name: str) -> str:
    return (FOLDER / f"{name}.wgsl").read_text(encoding="utf-8")
