"""One operation at a time: a model has one set of buffers, shared by all callers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from wgcc_runtime.forked import check_process
from wgcc_runtime.interrupts import handle_now, held

# How often a thread that waits for another checks whether it was interrupted.
LOOK_SECONDS = 0.1


class Exclusive:
    """A lock for threads; signals are deferred while one holds it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def use(self) -> Iterator[None]:
        # Before the lock: in a forked process no thread may be left to release it.
        check_process()
        with held():
            while not self._lock.acquire(timeout=LOOK_SECONDS):
                handle_now()
            try:
                yield
            finally:
                self._lock.release()
