"""The op set. Every module of this folder adds the ops in its `OPS`; there is no list to edit."""

from __future__ import annotations

import importlib
import pkgutil

from wgcc.ops.registry import ALL_OPS as OPS
from wgcc.ops.registry import Op, ShapeError, infer_types

__all__ = ["OPS", "Op", "ShapeError", "infer_types"]


def _discover() -> None:
    for module_info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for op in getattr(module, "OPS", ()):
            assert op.name not in OPS, f"two ops {op.name}"
            OPS[op.name] = op


_discover()
