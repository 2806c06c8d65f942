"""Runs wgcc bundles: `load` one, call its entries, train it, save it.

Needs numpy, safetensors and (once a bundle is loaded) wgpu, but not the compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wgcc_runtime.adapters import Adapter
    from wgcc_runtime.chat import Chat
    from wgcc_runtime.data.preparation import Data
    from wgcc_runtime.data.read import read_data
    from wgcc_runtime.early_stopping import EarlyStopping
    from wgcc_runtime.errors import WgccError, WgccWarning
    from wgcc_runtime.generating import generate
    from wgcc_runtime.history import History, Report
    from wgcc_runtime.loader import load, load_plan
    from wgcc_runtime.model import Model
    from wgcc_runtime.selftest import run_selftest
    from wgcc_runtime.writing import write

# The only place of the version: both Python packages and every bundle take it from here.
__version__ = "0.2.0"

# Imported at first use, so that the compiler can import `wgcc_runtime.drawn` alone.
_MODULES = {
    "Adapter": "adapters",
    "Chat": "chat",
    "Data": "data.preparation",
    "EarlyStopping": "early_stopping",
    "History": "history",
    "Model": "model",
    "Report": "history",
    "WgccError": "errors",
    "WgccWarning": "errors",
    "generate": "generating",
    "load": "loader",
    "load_plan": "loader",
    "read_data": "data.read",
    "run_selftest": "selftest",
    "write": "writing",
}
__all__ = [
    "Adapter", "Chat", "Data", "EarlyStopping", "History", "Model", "Report", "WgccError",
    "WgccWarning", "generate", "load", "load_plan", "read_data", "run_selftest", "write",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"wgcc_runtime has no `{name}`")
    return getattr(importlib.import_module(f"wgcc_runtime.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
