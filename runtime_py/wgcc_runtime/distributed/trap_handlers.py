"""Keeps the handlers of signals that WebAssembly traps raise."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

# More than `struct sigaction` has on any system.
RECORD_BYTES = 512
TRAPS = ("SIGILL", "SIGSEGV", "SIGFPE", "SIGBUS")


@contextmanager
def kept_trap_handlers() -> Iterator[None]:
    """A trap of a twin is a signal, which wasmtime handles. Ray replaces its handlers when it
    starts, and removes them when it ends; a trap would then end the process."""
    if os.name != "posix":
        yield
        return
    libc = ctypes.CDLL(None)
    numbers = [int(getattr(signal, name)) for name in TRAPS]
    records = {number: ctypes.create_string_buffer(RECORD_BYTES) for number in numbers}
    for number, record in records.items():
        libc.sigaction(number, None, record)
    try:
        yield
    finally:
        for number, record in records.items():
            libc.sigaction(number, record, None)
