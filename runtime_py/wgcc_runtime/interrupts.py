"""Signals, threads and processes that must not disturb a model.

Python runs the handler of a signal between any two instructions of the main thread, and that of
Ctrl-C raises. During a call to the GPU this would leave a buffer mapped for ever, or steps that are
not counted. Within `held`, handlers are deferred until the work is done; `Exclusive` lets one
thread at a time use a model. In a forked process, where the threads of the driver, of wgpu and of
the twin do not exist, bundles are refused: calls, and freeing a buffer, would wait for ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
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
    """Forbids forked processes to use bundles from now on: `module` runs them in this one."""
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
    """Stops freeing objects of wgpu or wasmtime when Python drops them."""
    for name in ("GPUObjectBase", "GPUAdapter", "Managed"):
        with contextlib.suppress(AttributeError):
            getattr(module, name).__del__ = lambda self: None


def _skip_exit_handlers() -> None:
    # Drivers join their threads when a process ends. C runs exit handlers in reverse order: the
    # last one registered, `_exit`, gets the status and ends the process before the others run.
    with contextlib.suppress(AttributeError):
        library = ctypes.CDLL(None)
        library.on_exit(library._exit, None)


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

    __slots__ = ()

    def __enter__(self) -> None:
        if _is_main():
            _signals.enter()

    def __exit__(self, *_: object) -> None:
        if _is_main():
            _signals.leave()


def handle_now() -> None:
    """Runs the deferred handlers, at a point within `held` where the work may be given up."""
    if _is_main():
        _signals.deliver()


_main = threading.main_thread().ident


def _is_main() -> bool:
    return threading.get_ident() == _main


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


# How often a thread that waits for another checks whether it was interrupted.
LOOK_SECONDS = 0.1


class Exclusive:
    """A lock for threads; signals are deferred while one holds it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._held = held()

    def use(self) -> Exclusive:
        """For `with`; a generator would take longer than a small model does."""
        return self

    def __enter__(self) -> None:
        # Before the lock: in a forked process no thread may be left to release it.
        check_process()
        self._held.__enter__()
        try:
            while not self._lock.acquire(timeout=LOOK_SECONDS):
                handle_now()
        except BaseException:
            self._held.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self._lock.release()
        finally:
            self._held.__exit__()


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


# More than `struct sigaction` has on any system; it begins with the address of the handler.
RECORD_BYTES = 512
TRAPS = ("SIGSEGV", "SIGILL", "SIGFPE", "SIGBUS")


class TrapHandlers:
    """The current handlers; `restore` installs them again if others have taken their place."""

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
