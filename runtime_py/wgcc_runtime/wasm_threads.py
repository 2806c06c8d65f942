"""Threads that run the twin together: the caller is number 0, the others wait for work.

A call that may take long runs in another thread than the caller's, which would not see signals:
the first call of each export, and all calls of those that are not quick.

Within a call they synchronise at barriers. If one of them fails, the others would wait for it for
ever, so it releases them by changing the barriers; the contents of the memory are then unusable.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial

from wgcc_runtime.errors import WgccError
from wgcc_runtime.gpu_errors import LOOK_SECONDS, WAIT_SECONDS
from wgcc_runtime.interrupts import has_insisted
from wgcc_runtime.wasm_engine import Instance, compiled, shared_memory, wasmtime

# Adds one to each word that a module may use for barriers, and wakes the threads that wait there.
RELEASE = """
(module
  (import "env" "memory" (memory 1 65536 shared))
  (func (export "release") (param i32 i32) (local $at i32)
    loop $next
      (drop (i32.atomic.rmw.add (local.get $at) (i32.const 1)))
      (drop (memory.atomic.notify (local.get $at) (i32.const -1)))
      (local.set $at (i32.add (local.get $at) (i32.const 4)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 1024)))
    end))
"""
# The pause between two attempts to release the threads.
PAUSE_SECONDS = 0.001
# A call that takes less need not see signals; handing it to another thread takes 0.05 ms.
QUICK_SECONDS = 0.05


Job = Callable[[Instance], None]


class Team:
    """One module in several threads with one memory.

    `is_broken`: a thread failed or was left at work, so that the memory holds nothing usable.
    """

    def __init__(self, code: bytes, pages: int, threads: int) -> None:
        self._pages = pages
        self._memory = shared_memory(pages) if threads > 1 else None
        module = compiled(code)
        self._instances = [
            Instance(module, pages, number, threads, self._memory) for number in range(threads)
        ]
        self.data = self._instances[0].data()
        self.is_broken = False
        self._front: _Member | None = None
        self._members: list[_Member] = []
        self._quick: set[str] = set()
        self._lock = threading.Lock()
        self._at_work = 0
        self._failures: list[BaseException] = []

    def check_export(self, name: str) -> None:
        self._instances[0].check_export(name)

    def run(self, name: str, alone: bool = False) -> None:
        """Runs an export in all threads; returns when all are done, or raises an error.

        `alone`: in the caller's thread only.
        """
        self._failures = []
        self._instances[0].keep_traps()
        job = partial(self._run, name, alone or len(self._instances) == 1)
        if name in self._quick:
            job(self._instances[0])
        else:
            self._run_in_front(name, job)
        if self._failures:
            raise self._failures[0]

    def close(self) -> None:
        _end([*self._members, *([self._front] if self._front else [])])
        self._front, self._members, self._instances = None, [], []

    def _run_in_front(self, name: str, job: Job) -> None:
        """In a thread of its own, while this one sees signals."""
        self._front = self._front or self._start(self._instances[0])
        started = time.monotonic()
        self._front.begin(job)
        while not self._front.has_ended(LOOK_SECONDS):
            seconds = time.monotonic() - started
            if has_insisted() or seconds > WAIT_SECONDS:
                self.is_broken = True
                raise _left(name, seconds)
        if time.monotonic() - started < QUICK_SECONDS:
            self._quick.add(name)

    def _run(self, name: str, alone: bool, first: Instance) -> None:
        if alone:
            try:
                first.call(name, alone=True)
            except BaseException as error:
                self._failures.append(error)
            return
        if not self._members:
            self._members = [self._start(instance) for instance in self._instances[1:]]
        self._at_work = len(self._instances)
        for member in self._members:
            member.begin(partial(self._take_part, name))
        self._take_part(name, first)
        for member in self._members:
            member.wait()

    def _start(self, instance: Instance) -> _Member:
        """Not before the first call: a caller that only reads parameters needs no threads."""
        member = _Member(instance)
        # At the end of the program it may be at work, and ends with it.
        weakref.finalize(self, _end, (member,)).atexit = False
        return member

    def _take_part(self, name: str, instance: Instance) -> None:
        try:
            instance.call(name)
        except BaseException as error:
            self._failures.append(error)
        with self._lock:
            self._at_work -= 1
        if self._failures:
            self._release_others()

    def _release_others(self) -> None:
        """Repeats until all have returned: they may wait at one barrier after the other."""
        self.is_broken = True
        code = bytes(wasmtime().wat2wasm(RELEASE))
        instance = Instance(compiled(code), self._pages, memory=self._memory)
        while self._at_work:
            instance.call("release")
            time.sleep(PAUSE_SECONDS)


class _Member:
    """A thread that runs one job after the other. While it waits, it keeps no team alive."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._job: Job | None = None
        self._has_ended = False
        # Locks as signals, because they wake a thread fastest.
        self._begun, self._ended = threading.Lock(), threading.Lock()
        self._begun.acquire()
        self._ended.acquire()
        threading.Thread(target=self._serve, name="wgcc twin", daemon=True).start()

    def begin(self, job: Job) -> None:
        self._job = job
        self._begun.release()

    def end(self) -> None:
        """Ends the thread by giving it no job; may be called again."""
        if not self._has_ended:
            self._has_ended = True
            self._begun.release()

    def wait(self) -> None:
        self._ended.acquire()

    def has_ended(self, seconds: float) -> bool:
        """Waits at most so long for the job."""
        return self._ended.acquire(timeout=seconds)

    def _serve(self) -> None:
        while True:
            self._begun.acquire()
            job, self._job = self._job, None
            if job is None:
                return
            job(self._instance)
            del job
            self._ended.release()


def _left(name: str, seconds: float) -> WgccError:
    if has_insisted():
        text = f"Ctrl-C was pressed so often that `{name}` was not waited for"
        return WgccError("interrupted", text)
    return WgccError("time-out", f"the twin did not finish `{name}` within {seconds:.0f} s")


def _end(members: Sequence[_Member]) -> None:
    for member in members:
        member.end()
