"""numpy, imported at its first use.

Compiling a model needs numpy only where a constant must be evaluated, so `import wgcc.compiler`
must not take the time to import it (nor need it: the compiler also runs without numpy).
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
            member = getattr(importlib.import_module("numpy"), name)
            setattr(self, name, member)  # the next use does not call __getattr__
            return member

    np = _LazyNumpy()
    Array = Any

__all__ = ["Array", "np"]
