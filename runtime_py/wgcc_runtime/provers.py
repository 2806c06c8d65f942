"""Who proves that kernels need no checks at run time: a module that the compiler names.

The runtime never imports the compiler on its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

Grid = tuple[int, int, int]
# Of a kernel and its largest grid: whether all indices are in range, and whether all loops end.
Prove = Callable[[str, Grid], tuple[bool, bool]]

_modules: list[str] = []


def use_prover(module: str) -> None:
    """Names the module whose function `prove` is asked; it is imported for the first kernel."""
    _modules[:] = [module]


def prover() -> Prove | None:
    """None where no compiler was imported."""
    if not _modules:
        return None
    prove: Prove = importlib.import_module(_modules[0]).prove
    return prove
