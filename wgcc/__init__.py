"""wgcc compiles `.wg` model files to WebGPU bundles (`wgcc.compiler`). Importing this is free."""

from __future__ import annotations

from typing import Any

from wgcc_runtime import __version__

__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:
    """`wgcc.load` opens a bundle: the runtime's function, imported when it is first asked for."""
    if name == "load":
        from wgcc_runtime import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
