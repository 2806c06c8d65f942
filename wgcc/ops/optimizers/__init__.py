"""The kinds of optimizers. Every module of this folder adds those in its `OPTIMIZERS`.

Adding one is adding a file: its update op, its settings with their defaults, and the rule that
makes one from the other. The checker, the optimizer pass and the documentation read `OPTIMIZERS`.
"""

from __future__ import annotations

import importlib
import pkgutil

from wgcc.ops.optimizers.kind import OptimizerKind
from wgcc.ops.registry import Op

__all__ = ["OPS", "OPTIMIZERS", "OptimizerKind"]


def _discover() -> tuple[dict[str, OptimizerKind], tuple[Op, ...]]:
    kinds: dict[str, OptimizerKind] = {}
    ops: list[Op] = []
    for module_info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        ops += getattr(module, "OPS", ())
        for kind in getattr(module, "OPTIMIZERS", ()):
            assert kind.name not in kinds, f"two optimizers {kind.name}"
            kinds[kind.name] = kind
    return dict(sorted(kinds.items())), tuple(ops)


OPTIMIZERS, OPS = _discover()
