"""Keeps the handlers of signals that WebAssembly traps raise.

A trap of a twin is a signal, which wasmtime handles. A library that installs handlers of its own
later, as Ray does when it starts and when it ends, would make a trap the end of the process.
"""

from __future__ import annotations

import ctypes
import os
import signal

# More than `struct sigaction` has on any system; it begins with the address of the handler.
RECORD_BYTES = 512
TRAPS = ("SIGSEGV", "SIGILL", "SIGFPE", "SIGBUS")


class TrapHandlers:
    """Those that are there now; `restore` installs them again if others have taken their place."""

    def __init__(self) -> None:
        self._records: dict[int, ctypes.Array[ctypes.c_char]] = {}
        if os.name != "posix":
            return
        self._sigaction = ctypes.CDLL(None).sigaction
        self._sigaction.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        for name in TRAPS:
            number = int(getattr(signal, name))
            self._records[number] = ctypes.create_string_buffer(RECORD_BYTES)
            self._sigaction(number, None, self._records[number])
        # A plain number: an enum takes a microsecond more.
        self._number = int(signal.SIGSEGV)
        self._probe = ctypes.create_string_buffer(RECORD_BYTES)
        self._place = ctypes.addressof(self._probe)
        self._found = ctypes.c_void_p.from_buffer(self._probe)
        self._own = ctypes.c_void_p.from_buffer(self._records[self._number]).value

    def restore(self) -> None:
        """Asks for one of them, which takes 1 µs: whoever replaces one replaces all."""
        if not self._records:
            return
        self._sigaction(self._number, None, self._place)
        if self._found.value != self._own:
            for number, record in self._records.items():
                self._sigaction(number, record, None)
