"""How many threads numpy's BLAS uses, where that is OpenBLAS: other libraries are left as they are.

numpy has no function for it, so the library is found among the files of numpy and asked itself.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

# Where the packages of numpy keep libraries: beside it (Linux, Windows) or inside (macOS).
FOLDERS = ("../numpy.libs", ".dylibs")
# What OpenBLAS calls its functions, in numpy's own builds and in others.
NAMES = (
    "scipy_openblas_{}64_",
    "scipy_openblas_{}",
    "openblas_{}64_",
    "openblas_{}",
)
Number = Callable[..., int]


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Within this, BLAS uses at most so many threads, in all threads of the process."""
    functions = _functions()
    before = functions[0]() if functions else 0
    if functions is None or before <= count:
        yield
        return
    functions[1](count)
    try:
        yield
    finally:
        functions[1](before)


@lru_cache(maxsize=1)
def _functions() -> tuple[Number, Number] | None:
    """The functions that get and set the number of threads."""
    numpy = importlib.util.find_spec("numpy")
    if numpy is None or numpy.origin is None:
        return None
    home = Path(numpy.origin).parent
    for path in (path for folder in FOLDERS for path in (home / folder).glob("*openblas*")):
        try:
            library = ctypes.CDLL(str(path.resolve()))
        except OSError:
            continue
        for name in NAMES:
            get, put = (
                getattr(library, name.format(f"{verb}_num_threads"), None)
                for verb in ("get", "set")
            )
            if get and put:
                return get, put
    return None
