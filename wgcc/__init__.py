"""wgcc compiles `.wg` model files to WebGPU bundles (`wgcc.compiler`). Importing this is free."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from wgcc_runtime import __version__
from wgcc_runtime.provers import use_prover

if TYPE_CHECKING:
    from wgcc.compile_error import CompileError
    from wgcc.in_memory import compile
    from wgcc_runtime import load

# Imported at first use: the runtime's function `load`, and what compiles in memory.
_MODULES = {
    "CompileError": "wgcc.compile_error",
    "compile": "wgcc.in_memory",
    "load": "wgcc_runtime",
    # `%load_ext wgcc` in a notebook looks for this name.
    "load_ipython_extension": "wgcc.cell_magic",
}
# What lets kernels run without checks, where a model is loaded beside the compiler.
use_prover("wgcc.bundle.prove")
__all__ = ["CompileError", "__version__", "compile", "load"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
