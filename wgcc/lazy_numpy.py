"""numpy, imported at its first use.

Compiling a model needs numpy only where a constant must be evaluated, so `import wgcc.compiler`
must not take the time to import it. Where numpy is missing, as in a page, small arrays replace it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
else:

    class _LazyNumpy:
        def __getattr__(self, name: str) -> Any:
            member = getattr(_provider(), name)
            setattr(self, name, member)  # the next use does not call __getattr__
            return member

    def _provider() -> Any:
        return import_module("numpy" if has_numpy() else "wgcc.small_arrays")

    np = _LazyNumpy()
    Array = Any


def has_numpy() -> bool:
    """Whether numpy itself is there, not only what replaces it."""
    try:
        import_module("numpy")
    except ImportError:
        return False
    return True


__all__ = ["Array", "has_numpy", "np"]
