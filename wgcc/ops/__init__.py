"""The op set. Every module of this folder adds the ops in its `OPS`; there is no list to edit."""

from __future__ import annotations

import importlib
import pkgutil

from wgcc.ir.graph import Attrs, TensorType
from wgcc.ops.registry import Op, ShapeError

__all__ = ["OPS", "Op", "ShapeError", "infer_types"]


def _discover() -> dict[str, Op]:
    ops: dict[str, Op] = {}
    for module_info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for op in getattr(module, "OPS", ()):
            assert op.name not in ops, f"two ops {op.name}"
            ops[op.name] = op
    return ops


OPS = _discover()


def infer_types(op: str, inputs: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    types = OPS[op].infer(*inputs, **attrs)
    return types if isinstance(types, tuple) else (types,)
