"""numpy, imported at its first use.

Compiling a model needs numpy only where a constant must be evaluated, so `import wgcc.compiler`
must not pay for it (nor need it: the compiler also runs where numpy is absent).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
else:
    import importlib

    class _LazyNumpy:
        def __getattr__(self, name: str) -> Any:
            found = getattr(importlib.import_module("numpy"), name)
            setattr(self, name, found)  # the next use finds it without coming here
            return found

    np = _LazyNumpy()
    Array = Any

__all__ = ["Array", "np"]
