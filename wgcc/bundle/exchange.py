"""Swaps two folders in one step of the file system, so that at no moment one of them is missing."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

# Of renameat2 and renamex_np: both names must exist, and each gets the other's file.
SWAP = 2
# Paths are relative to the working folder, as everywhere else.
HERE = -100


def exchange(one: Path, other: Path) -> bool:
    """Whether it was done. Some systems cannot; a mount point stays where it is on all of them."""
    if sys.platform not in ("linux", "darwin"):
        return False
    library = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(one), os.fsencode(other)
    try:
        if sys.platform == "darwin":
            return bool(library.renamex_np(first, second, SWAP) == 0)
        return bool(library.renameat2(HERE, first, HERE, second, SWAP) == 0)
    except AttributeError:  # an older C library
        return False
