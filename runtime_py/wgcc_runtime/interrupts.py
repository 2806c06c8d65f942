"""Keeps signals out of work that must not be cut in two.

Python runs the handler of a signal between any two instructions of the main thread, and that of
Ctrl-C raises. In the midst of a call to the GPU this would leave a buffer mapped for ever, or steps
that nobody counts. Within `held`, handlers wait until the work is done.
"""

from __future__ import annotations

import contextlib
import importlib
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

# What programs are ended, stopped or timed with. A signal that has no handler in Python waits for
# nothing: it ends the process, or does not concern it.
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK")
SIGNALS = tuple(int(getattr(signal, name)) for name in NAMES if hasattr(signal, name))
try:
    # What `signal` itself wraps. Turning numbers into enums and back takes ten times as long.
    _native: Any = importlib.import_module("_signal")
except ImportError:
    _native = signal
# So often must Ctrl-C be pressed to end a wait for the GPU.
INSISTENT = 3

Handler = Callable[[int, "FrameType | None"], Any]


class held:  # noqa: N801 (used as a word, and often: a generator would take three times as long)
    """Signals that come in here are handled when it ends. It nests; other threads get none."""

    __slots__ = ("_is_main",)

    def __enter__(self) -> None:
        self._is_main = threading.current_thread() is threading.main_thread()
        if self._is_main:
            _signals.enter()

    def __exit__(self, *_: object) -> None:
        if self._is_main:
            _signals.leave()


def handle_now() -> None:
    """Within `held`, where the work may be given up: runs the handlers that wait."""
    if threading.current_thread() is threading.main_thread():
        _signals.deliver()


def has_insisted() -> bool:
    """Whether Ctrl-C was pressed so often that the user does not want to wait any longer."""
    return _signals.waiting.count(signal.SIGINT) >= INSISTENT


class _Signals:
    """Stands in for the handlers of the program while something is held, and passes on.

    An exception can arise at any instruction that runs while `depth` is 0. At each of them
    everything must be in order: a stand-in that is left in place just passes on.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.waiting: list[int] = []
        self._handlers: dict[int, Handler] = {}

    def enter(self) -> None:
        if not self.depth:
            self._stand_in()
        self.depth += 1

    def leave(self) -> None:
        try:
            self.depth -= 1
        finally:
            if not self.depth:
                try:
                    self.deliver()
                finally:
                    self._stand_down()

    def deliver(self) -> None:
        """Each handler as often as its signal came, until one raises."""
        if not self.waiting:
            return
        number = self.waiting.pop(0)
        try:
            self._handlers[number](number, None)
        except BaseException:
            self.waiting = [other for other in self.waiting if other != number]
            raise
        finally:
            self.deliver()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        handler = self._handlers[number]
        if not self.depth:
            handler(number, frame)
            return
        self.waiting.append(number)
        # Such a handler has something to say at once.
        notice = getattr(handler, "notice", None)
        if notice:
            notice()

    def _stand_in(self) -> None:
        for number in SIGNALS:
            handler = _native.getsignal(number)
            if callable(handler) and handler != self._handle:
                self._handlers[number] = handler
                # Refused where Python itself is a guest and gets no signals.
                with contextlib.suppress(ValueError):
                    _native.signal(number, self._handle)

    def _stand_down(self) -> None:
        for number, handler in self._handlers.items():
            if _native.getsignal(number) == self._handle:
                _native.signal(number, handler)


_signals = _Signals()
