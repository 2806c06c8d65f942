"""One operation at a time: a model has one set of buffers, shared by all callers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from wgcc_runtime.errors import WgccError
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


class OneFit:
    """A callback may call `fit` again, but two threads would mix up the order of steps."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def use(self) -> Iterator[None]:
        check_process()
        before, thread = self._thread, threading.current_thread()
        if before not in (None, thread):
            raise WgccError("busy", "the model is in `fit` already, in another thread")
        self._thread = thread
        try:
            yield
        finally:
            self._thread = before


class OneText:
    """Two texts that are written by turns would read each other's letters, which are in the state
    of the model. A text begins with its first letter, and ends when its iterator does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def use(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            text = "the model writes a text already: read it to its end, or close its iterator"
            raise WgccError("busy", text, "generate")
        try:
            yield
        finally:
            self._lock.release()
