"""Refuses the GPU in a process made by `os.fork`, where it does not work.

The threads of the driver and of wgpu exist only in the parent. A call in the child would wait for
them for ever, and so would freeing a buffer, when the child drops a model or ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from types import ModuleType
from typing import Any

from wgcc_runtime.errors import WgccError

_watched = False
_is_child = False


def check_process() -> None:
    if _is_child:
        raise WgccError(
            "forked",
            "this process was forked from one that uses the GPU, which works only in that one: "
            "load bundles only after the fork, or start processes by `spawn` "
            "(multiprocessing.set_start_method('spawn'))",
        )


def is_child() -> bool:
    return _is_child


def watch(wgpu: ModuleType) -> None:
    """From now on, processes forked from this one refuse to use the GPU."""
    global _watched
    if not _watched and hasattr(os, "register_at_fork"):
        _watched = True
        os.register_at_fork(after_in_child=lambda: _disable(wgpu))


def _disable(wgpu: Any) -> None:
    """The child never frees the parent's objects, and skips the driver's exit handlers."""
    global _is_child
    _is_child = True
    for name in ("GPUObjectBase", "GPUAdapter"):
        with contextlib.suppress(AttributeError):
            getattr(wgpu, name).__del__ = lambda self: None
    # Drivers join their threads when a process ends. C runs exit handlers in reverse order: the
    # last one registered, `_exit`, gets the status and ends the process before the others run.
    with contextlib.suppress(AttributeError):
        library = ctypes.CDLL(None)
        library.on_exit(library._exit, None)
