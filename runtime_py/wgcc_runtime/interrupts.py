"""Defers signals during work that must not be interrupted.

Python runs the handler of a signal between any two instructions of the main thread, and that of
Ctrl-C raises. During a call to the GPU this would leave a buffer mapped for ever, or steps that are
not counted. Within `held`, handlers are deferred until the work is done.
"""

from __future__ import annotations

import contextlib
import importlib
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

# Signals that end, stop or time programs. A signal without a handler in Python is not deferred: it
# ends the process, or is ignored.
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK")
SIGNALS = tuple(int(getattr(signal, name)) for name in NAMES if hasattr(signal, name))
try:
    # The module that `signal` wraps; converting numbers to enums and back takes ten times as long.
    _native: Any = importlib.import_module("_signal")
except ImportError:
    _native = signal
# How often Ctrl-C must be pressed to end a wait for the GPU.
INSISTENT = 3

Handler = Callable[[int, "FrameType | None"], Any]


class held:  # noqa: N801 (used like a function, and often: a generator would be three times slower)
    """Signals that arrive within it are handled at its end. It nests; other threads get none."""

    __slots__ = ("_is_main",)

    def __enter__(self) -> None:
        self._is_main = threading.current_thread() is threading.main_thread()
        if self._is_main:
            _signals.enter()

    def __exit__(self, *_: object) -> None:
        if self._is_main:
            _signals.leave()


def handle_now() -> None:
    """Runs the deferred handlers, at a point within `held` where the work may be given up."""
    if threading.current_thread() is threading.main_thread():
        _signals.deliver()


def has_insisted() -> bool:
    """Whether Ctrl-C was pressed so often that the user does not want to wait any longer."""
    return _signals.waiting.count(signal.SIGINT) >= INSISTENT


class _Signals:
    """Replaces the handlers of the program while signals are held, and calls them afterwards.

    An exception can occur at any instruction that runs while `depth` is 0. At each of them the
    state must be consistent: a replacement that is left in place just calls the handler.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.waiting: list[int] = []
        self._handlers: dict[int, Handler] = {}

    def enter(self) -> None:
        if not self.depth:
            self._replace_handlers()
        self.depth += 1

    def leave(self) -> None:
        try:
            self.depth -= 1
        finally:
            if not self.depth:
                try:
                    self.deliver()
                finally:
                    self._restore_handlers()

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
        # A handler with `notice` reports the signal at once.
        notice = getattr(handler, "notice", None)
        if notice:
            notice()

    def _replace_handlers(self) -> None:
        for number in SIGNALS:
            handler = _native.getsignal(number)
            if callable(handler) and handler != self._handle:
                self._handlers[number] = handler
                # Refused where Python is embedded in another program and gets no signals.
                with contextlib.suppress(ValueError):
                    _native.signal(number, self._handle)

    def _restore_handlers(self) -> None:
        for number, handler in self._handlers.items():
            if _native.getsignal(number) == self._handle:
                _native.signal(number, handler)


_signals = _Signals()
