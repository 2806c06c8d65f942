"""Operations that Python lacks: swapping two folders atomically, and syncing a whole folder."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from wgcc_runtime.replace_file import sync_folder

# A flag of renameat2 and renamex_np: both names must exist, and each gets the other's file.
SWAP = 2
# Paths are relative to the working folder, as everywhere else.
HERE = -100


def exchange(one: Path, other: Path) -> bool:
    """Swaps two folders in one step, so that neither is missing at any moment.

    Returns whether it was done: some systems cannot, and a mount point can be moved on none.
    """
    first, second = os.fsencode(one), os.fsencode(other)
    calls: dict[str, tuple[Any, ...]] = {
        "linux": ("renameat2", HERE, first, HERE, second, SWAP),
        "darwin": ("renamex_np", first, second, SWAP),
    }
    return sys.platform in calls and _call(*calls[sys.platform]) == 0


def flush(folder: Path, names: Iterable[str]) -> None:
    """Syncs files of a folder to disk, so that they survive a loss of power.

    Linux can sync a whole file system at once, which is much faster than file by file.
    """
    if sys.platform == "linux" and _flush_at_once(folder):
        return
    paths = [folder / name for name in names]
    for path in paths:
        with open(path, "rb+") as stream:
            os.fsync(stream.fileno())
    for parent in {folder, *(path.parent for path in paths)}:
        sync_folder(parent)


def _flush_at_once(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        result = _call("syncfs", descriptor)
        if result not in (0, None):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
        return result == 0
    finally:
        os.close(descriptor)


def _call(name: str, *arguments: Any) -> int | None:
    """The result of a function of the C library; None if an older one lacks it."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    return None if function is None else int(function(*arguments))
