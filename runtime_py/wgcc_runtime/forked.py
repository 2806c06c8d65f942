"""What `os.fork` leaves of the GPU in the child: nothing that works.

The threads of the driver and of wgpu exist in the parent alone. A call would wait for them for
ever, and so would whatever frees a buffer, when the child drops a model or ends.
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
            "this process was forked from one that uses the GPU, which works in that one alone: "
            "load bundles only after the fork, or start processes by `spawn` "
            "(multiprocessing.set_start_method('spawn'))",
        )


def is_child() -> bool:
    return _is_child


def watch(wgpu: ModuleType) -> None:
    """From now on, processes forked from this one are told that they have no GPU."""
    global _watched
    if not _watched and hasattr(os, "register_at_fork"):
        _watched = True
        os.register_at_fork(after_in_child=lambda: _renounce(wgpu))


def _renounce(wgpu: Any) -> None:
    """The parent's objects are never freed here, and its driver has no last word at the end."""
    global _is_child
    _is_child = True
    for name in ("GPUObjectBase", "GPUAdapter"):
        with contextlib.suppress(AttributeError):
            getattr(wgpu, name).__del__ = lambda self: None
    # Drivers join their threads when a process ends. Handlers of C run in reverse order: the last
    # one, `_exit`, is given the status and ends the process before them.
    with contextlib.suppress(AttributeError):
        library = ctypes.CDLL(None)
        library.on_exit(library._exit, None)
