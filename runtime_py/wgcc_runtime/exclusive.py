"""One thing at a time: a model is one set of buffers, whoever calls it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from wgcc_runtime.forked import check_process
from wgcc_runtime.interrupts import handle_now, held

# So often a thread that waits for another looks whether it was interrupted.
LOOK_SECONDS = 0.1


class Exclusive:
    """Threads take turns, and signals wait while one is at work."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def use(self) -> Iterator[None]:
        # Before the lock: in a forked process nobody may be left to release it.
        check_process()
        with held():
            while not self._lock.acquire(timeout=LOOK_SECONDS):
                handle_now()
            try:
                yield
            finally:
                self._lock.release()
