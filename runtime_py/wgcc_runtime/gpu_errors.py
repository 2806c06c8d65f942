"""All access to wgpu: it is imported when first needed, and its errors become `WgccError`s."""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from wgcc_runtime.errors import WgccError
from wgcc_runtime.forked import check_process, watch
from wgcc_runtime.interrupts import has_insisted, held

# A step that takes longer than this is treated as a shader that never ends.
WAIT_SECONDS = 600.0
# How often a wait checks whether the user has given up.
LOOK_SECONDS = 0.2


def wgpu() -> Any:
    """The wgpu module (it is untyped, hence Any)."""
    check_process()
    try:
        module = importlib.import_module("wgpu")
    except ImportError as error:
        text = f"running a bundle needs the package wgpu (pip install wgpu): {error}"
        raise WgccError("no-wgpu", text) from None
    watch(module)
    return module


@contextlib.contextmanager
def gpu_errors(doing: str) -> Iterator[None]:
    """Within this, an error of wgpu becomes a `WgccError`; `doing` says what was being done.

    Signals are deferred, because an exception inside wgpu leaves it in an unusable state.
    """
    gpu_error = wgpu().GPUError
    with held():
        try:
            yield
        except (gpu_error, RuntimeError, MemoryError) as error:
            # RuntimeError is what a failed mapping raises.
            raise _translated(doing, str(error)) from error


def _translated(doing: str, text: str) -> WgccError:
    lower = text.lower()
    if "device is lost" in lower or "device lost" in lower or "device was lost" in lower:
        return WgccError(
            "device-lost",
            f"the GPU device was lost while {doing}; load the bundle again and continue from the "
            "last checkpoint",
        )
    if "not enough memory" in lower or "out of memory" in lower:
        advice = "use a smaller batch or model (wgcc build --set), or another adapter"
        return WgccError("memory", f"the GPU does not have enough memory for {doing}: {advice}")
    return WgccError("gpu", f"the GPU driver refused {doing}: {text}")


def wait(promise: Any, doing: str, seconds: float = WAIT_SECONDS) -> None:
    """Waits for a promise of wgpu, with a time-out."""
    done = getattr(promise, "_thread_event", None)
    ends = time.monotonic() + seconds
    # Without that event (it is not public in wgpu) there is no time-out, but the wait still works.
    while done is not None and not done.wait(min(LOOK_SECONDS, seconds)):
        if has_insisted():
            text = f"Ctrl-C was pressed several times, so {doing} was no longer waited for"
            raise WgccError("interrupted", text)
        if time.monotonic() > ends:
            raise WgccError("time-out", f"the GPU did not finish {doing} within {seconds:.0f} s")
    promise.sync_wait()


@contextlib.contextmanager
def quiet_drivers() -> Iterator[None]:
    """Mesa prints a warning if this variable is unset, although nothing here needs a window."""
    name = "XDG_RUNTIME_DIR"
    if os.name != "posix" or os.environ.get(name):
        yield
        return
    os.environ[name] = tempfile.gettempdir()
    try:
        yield
    finally:
        del os.environ[name]
