"""Refuses bundles in a process made by `os.fork`, where they do not work.

The threads of the driver, of wgpu and of the twin exist only in the parent. A call in the child
would wait for them for ever, and so would freeing a buffer, when the child drops a model or ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from types import ModuleType
from typing import Any

from wgcc_runtime.errors import WgccError

_watched: list[ModuleType] = []
_is_child = False


def check_process() -> None:
    if _is_child:
        raise WgccError(
            "forked",
            "this process was forked from one that runs bundles, which works only in that one: "
            "load bundles only after the fork, or start processes by `spawn` "
            "(multiprocessing.set_start_method('spawn'))",
        )


def is_child() -> bool:
    return _is_child


def watch(module: ModuleType) -> None:
    """From now on, forked processes may not use bundles, which `module` runs in this one."""
    if module in _watched:
        return
    if not _watched and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_disable)
    _watched.append(module)


def _disable() -> None:
    global _is_child
    _is_child = True
    for module in _watched:
        keep_objects(module)
        if hasattr(module, "GPUObjectBase"):
            _skip_exit_handlers()


def keep_objects(module: Any) -> None:
    """From now on, objects of wgpu or wasmtime are not freed when Python drops them."""
    for name in ("GPUObjectBase", "GPUAdapter", "Managed"):
        with contextlib.suppress(AttributeError):
            getattr(module, name).__del__ = lambda self: None


def _skip_exit_handlers() -> None:
    # Drivers join their threads when a process ends. C runs exit handlers in reverse order: the
    # last one registered, `_exit`, gets the status and ends the process before the others run.
    with contextlib.suppress(AttributeError):
        library = ctypes.CDLL(None)
        library.on_exit(library._exit, None)
